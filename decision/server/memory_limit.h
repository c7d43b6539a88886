// --memory-max, and how much memory this process has. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace ccld::decision::server {

// What the service needs before it knows anybody.
constexpr uint64_t memory_max_least = uint64_t{64} << 20;

// "512M", "none" (0) or "auto": nine tenths of what the control group may have, or none where it has no limit.
// `proc`, `cgroup`: where the kernel tells it. Errors: InvalidArgument, without the option's name.
absl::StatusOr<uint64_t> memory_max_of(const std::string& text, const std::string& proc = "/proc",
                                       const std::string& cgroup = "/sys/fs/cgroup");

// 0: the kernel does not tell.
uint64_t resident_bytes();

}  // namespace ccld::decision::server
