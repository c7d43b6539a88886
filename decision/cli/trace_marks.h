// What people and programs did about a job, as marks of its trace: hardware that was validated, actions that were
// taken.
//
// Contract: pure. The files have times of the calendar; `realtime_minus_clock_ns`: how far it was from the service's
// clock. Errors name the field. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/trace/rows.h"

namespace ccld::decision {

// The output of `ccld-validate --json`: what it found, each suspect on its GPU, too; or that all is healthy.
absl::StatusOr<std::vector<trace::Mark>> marks_of_validation(const std::string& json, int64_t realtime_minus_clock_ns);

// The file of `act --state`: each action, when its hook was begun.
absl::StatusOr<std::vector<trace::Mark>> marks_of_actions(const std::string& json, int64_t realtime_minus_clock_ns);

}  // namespace ccld::decision
