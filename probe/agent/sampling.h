// What the parts of a CommTracker share: the instant of the sample, whether anything has moved in it, and what was
// lost.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstdint>

#include "probe/agent/clock.h"
#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

// What changes slowly or costs much is looked at that often: poll ticks and waits (they matter once nothing moves), new
// connection endpoints, records that are waited for, kernels whose end may never come.
constexpr uint64_t slow_look_ns = 8 * ns_per_ms;

struct Sampling {
  Instant now;
  bool moved = false;
  bool forgive = false;                          // recording was stopped until now: what is missing is nobody's loss
  uint64_t lapped_rounds = 0, lapped_calls = 0;  // since the start

  void lose_rounds(uint64_t count) {
    if (!forgive) lapped_rounds += count;
  }
  void lose_calls(uint64_t count) {
    if (!forgive) lapped_calls += count;
  }
  void lose(const abi::OpRecord&, uint64_t count) { lose_rounds(count); }
  void lose(const abi::P2pRecord&, uint64_t count) { lose_calls(count); }
};

}  // namespace ccld::probe
