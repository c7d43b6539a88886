// --threads: how many take telemetry in. Threads: any.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "decision/workers.h"

namespace ccld::decision::server {

// Beyond that, what one thread does alone takes most of the time: a fifth of all with one.
constexpr size_t threads_auto_max = 8;

// A number up to threads_max, or "auto": as many as there are processors that this process may use and that its control
// group pays for, and at most threads_auto_max. `proc`, `cgroup`: where the kernel tells it.
// Errors: InvalidArgument, without the option's name.
absl::StatusOr<size_t> threads_of(const std::string& text, const std::string& proc = "/proc",
                                  const std::string& cgroup = "/sys/fs/cgroup");

}  // namespace ccld::decision::server
