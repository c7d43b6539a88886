// Which revisions the webhook's receiver has: the newest one of each incident. What is newer is to be delivered, so a revision is
// queued by being stored, and no kill loses it.
// Errors: as sqlite.h. Threads: as the database.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/history/sqlite.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::history {

// A receiver is told what is found from the first start with a webhook on, not what was there before.
absl::Status begin_deliveries(Database&, int64_t now_ms);
// A start without a webhook: the next one with it begins anew.
absl::Status end_deliveries(Database&);

// Verdicts in the order in which they were stored, those not before `since_ms` (1970) and at most `max`, the newest;
// `left_out`: how many more there are.
struct Undelivered {
  std::vector<report::Json> verdicts;
  uint64_t left_out = 0;
};
absl::StatusOr<Undelivered> undelivered(Database&, int64_t since_ms, uint64_t max);

// This revision, and all before it. Also where the incident is not stored (any more): then nothing happens.
absl::Status set_delivered(Database&, uint64_t incident, uint64_t revision);

}  // namespace ccld::decision::history
