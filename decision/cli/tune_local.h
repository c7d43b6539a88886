// Tunes the probe of one process on this machine through the control line of its process file (schemas/abi/process.h).
//
// Contract: one at a time (flock on the file), also against others that do the same; waits until the probe says what
// became of the request. Nothing but the control line is written.
// Errors: one line that names the file. NotFound: there is no such process with a probe; PermissionDenied: somebody
// else's; FailedPrecondition: another version, damaged, or the process is gone; DeadlineExceeded: it did not answer.
// Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "decision/model/control_wishes.h"
#include "schemas/abi/process.h"

namespace ccld::decision {

struct TuneLocal {
  std::string dir = "/dev/shm";
  uint32_t pid = 0;
  ControlWishes wishes;
  std::chrono::milliseconds timeout{5000};
};

// The values in force afterwards, and which fields were refused.
absl::StatusOr<abi::ControlStateLine> tune_process(const TuneLocal&);

}  // namespace ccld::decision
