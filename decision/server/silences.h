// POST /v1/silences and /v1/silences/<id>/end, GET /v1/silences.
// Errors: InvalidArgument names the field; NotFound: no such silence; FailedPrecondition: too many; Unavailable: the disk does not take it.
// Threads: any; waits for the disk, at most for a time.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "decision/report/silence.h"
#include "decision/server/reporter.h"

namespace ccld::decision::server {

// The longest maintenance. Whoever wants to hear of something never again changes who is notified.
constexpr int64_t silence_ms_max = int64_t{31} * 24 * 3600 * 1000;

// {"job"?, "host"?, "kind"?, "component"?, "for": "2h", "by", "note"?}; at least one of the first four.
absl::StatusOr<report::Silence> parse_silence(const std::string& body, int64_t now_ms);

// {"silence": {...}, "kept"}: kept is false where no history is.
absl::StatusOr<report::Json> add_silence(report::Silence, int64_t now_ms, Reporter&, absl::Duration timeout);
absl::StatusOr<report::Json> end_silence(uint64_t id, int64_t now_ms, Reporter&, absl::Duration timeout);
// {"silences"}: those whose time is not over.
report::Json silences_answer(int64_t now_ms, const Reporter&);

}  // namespace ccld::decision::server
