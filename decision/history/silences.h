// Silences in the history: those that have not ended. Numbers are not given twice.
// Errors: as sqlite.h. Threads: as the database.
#pragma once

#include "absl/status/statusor.h"
#include "decision/history/sqlite.h"
#include "decision/report/silence.h"

namespace ccld::decision::history {

absl::Status put_silence(Database&, const report::Silence&);  // with its number
absl::Status end_silence(Database&, uint64_t id);             // also where there is none

struct StoredSilences {
  report::Silences silences;  // whose time is not over
  uint64_t last_id = 0;       // the highest number ever given
};
absl::StatusOr<StoredSilences> silences_in_force(Database&, int64_t now_ms);
// Removes those whose time is over.
absl::StatusOr<StoredSilences> take_silences(Database&, int64_t now_ms);

}  // namespace ccld::decision::history
