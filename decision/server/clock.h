// The only place of the service that asks for the time; everything below is given it.
#pragma once

#include <time.h>

#include <cstdint>

#include "decision/model/types.h"

namespace ccld::decision::server {

inline Nanoseconds clock_now_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<Nanoseconds>(t.tv_sec) * ns_per_s + t.tv_nsec;
}

inline Nanoseconds monotonic_now_ns() { return clock_now_ns(CLOCK_MONOTONIC); }
inline Nanoseconds realtime_now_ns() { return clock_now_ns(CLOCK_REALTIME); }

// How far the calendar is ahead. On a busy machine time passes between any two readings: of a few the closest counts.
inline Nanoseconds realtime_minus_clock_ns() {
  constexpr Nanoseconds close_ns = ns_per_ms / 100;
  Nanoseconds ahead_ns = 0, least_ns = INT64_MAX;
  for (int tries = 0; tries < 5 && least_ns > close_ns; ++tries) {
    const Nanoseconds before_ns = monotonic_now_ns(), realtime_ns = realtime_now_ns(), took_ns = monotonic_now_ns() - before_ns;
    if (took_ns < least_ns) least_ns = took_ns, ahead_ns = realtime_ns - before_ns - took_ns / 2;
  }
  return ahead_ns;
}

}  // namespace ccld::decision::server
