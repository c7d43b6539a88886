// The clocks of the CPU device. All values are nanoseconds.
#pragma once

#include <time.h>

#include <cstdint>

namespace ccld::cpu_device {

inline uint64_t clock_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

// One clock for all processes of the machine.
inline uint64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

inline uint64_t thread_cpu_ns() { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

inline void sleep_ns(uint64_t duration_ns) {
  timespec duration{static_cast<time_t>(duration_ns / 1000000000u), static_cast<long>(duration_ns % 1000000000u)};
  nanosleep(&duration, nullptr);  // an early return through a signal is harmless: every caller loops or approximates
}

}  // namespace ccld::cpu_device
