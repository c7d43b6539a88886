// What the clocks of a host and of a GPU show at an instant: they start anywhere and drift.
#pragma once

#include <cmath>

#include "test/sim/instant.h"
#include "test/sim/random.h"

namespace ccld::sim {

struct Clocks {
  int64_t monotonic_start = 0, realtime_start = 0, device_start = 0;
  double host_drift = 0, device_drift = 0;  // parts of one

  uint64_t monotonic(Instant t) const { return at(monotonic_start, host_drift, t); }
  int64_t realtime(Instant t) const { return static_cast<int64_t>(at(realtime_start, host_drift, t)); }
  uint64_t device(Instant t) const { return at(device_start, device_drift, t); }

 private:
  static uint64_t at(int64_t start, double drift, Instant t) {
    return static_cast<uint64_t>(start + t + static_cast<int64_t>(std::llround(static_cast<double>(t) * drift)));
  }
};

}  // namespace ccld::sim
