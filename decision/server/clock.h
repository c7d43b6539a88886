// The only place of the service that asks for the time; everything below is given it.
#pragma once

#include <time.h>

#include "decision/model/types.h"

namespace ccld::decision::server {

inline Nanoseconds clock_now_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<Nanoseconds>(t.tv_sec) * ns_per_s + t.tv_nsec;
}

inline Nanoseconds monotonic_now_ns() { return clock_now_ns(CLOCK_MONOTONIC); }
inline Nanoseconds realtime_now_ns() { return clock_now_ns(CLOCK_REALTIME); }

}  // namespace ccld::decision::server
