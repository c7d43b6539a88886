// The clock of what the training path and the frames record. (The diagnostic thread has its own: agent/clock.h.)
//
// Threads: any.
#pragma once

#include <cstdint>
#include <ctime>

namespace ccld::probe {

// CLOCK_MONOTONIC in nanoseconds.
inline uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace ccld::probe
