// The connection endpoints (lanes of the frame) that the running kernel uses on one channel: how far each is, whether
// it polls, and what it waits for.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstdint>
#include <memory>

#include "probe/agent/kernel.h"
#include "probe/agent/sampling.h"

namespace ccld::probe {

class ChannelEndpoints {
 public:
  struct Endpoint {
    uint32_t run = 0;
    bool in_use = false;
    abi::Lane lane{};
    uint64_t moved_ns = 0;
    uint64_t polled_ns = 0;  // 0: never seen polling
    abi::WaitKind wait = abi::WaitKind::none;
    uint32_t want_step = 0;
    bool certain = false;
    uint64_t wait_since_ns = 0;
    size_t link = 0;
  };

  // A run has begun: nothing is known of its endpoints.
  void begin();
  // Reads how far they are. `all`: also those that were not in use at the last look.
  void look(const abi::FrameView&, Kernel&, uint32_t channel, uint32_t run, bool all, Sampling&);
  // Reads who polls, and derives who waits for what.
  void look_at_waits(const abi::FrameView&, const Kernel&, uint32_t channel, uint64_t poll_fresh_ns, Instant now);
  bool waits_known() const { return ticks_known_; }

  uint64_t polled_ns() const { return polled_ns_; }  // any warp; 0: never seen
  // When it polled, itself or a warp on its behalf: a group polls in LL or LL128 for all of its endpoints.
  uint64_t polled_ns(const Endpoint&) const;
  // Those in use: function(direction, index, endpoint).
  template <class Function>
  void visit(Function function) const {
    if (endpoints_ == nullptr) return;
    for (unsigned d = 0; d < abi::directions; ++d)
      for (uint32_t left = in_use_[d]; left != 0; left &= left - 1) {
        const auto i = static_cast<uint32_t>(__builtin_ctz(left));
        function(d, i, at(d, i));
      }
  }

 private:
  Endpoint& at(unsigned direction, uint32_t index) const {
    return endpoints_[direction * abi::lanes_per_direction + index];
  }
  static LinkTrack& link_of(Kernel&, Endpoint&, uint32_t channel, abi::Direction, uint32_t index);
  void look_at_polls(const abi::FrameView&, uint32_t channel, Instant now);
  bool warps_poll(const abi::Lane&, uint64_t poll_fresh_ns, Instant now) const;

  bool ticks_known_ = false;
  uint64_t polled_ns_ = 0;
  uint32_t in_use_[abi::directions] = {};  // a bit each
  uint32_t warp_tick_[abi::warps_max] = {};
  uint64_t warp_polled_ns_[abi::warps_max] = {};
  std::unique_ptr<Endpoint[]> endpoints_;  // directions x lanes_per_direction; from the first look on
};

// The kernel has ended on the channel after so many steps in that direction. Those between the last look and the end
// are given to its links where it is certain whose they were: a proxy knows how many steps its link has in an
// operation, and a single other link has what is left. `operations`: that the kernel carries.
void complete_links(Kernel&, uint32_t channel, abi::Direction, uint32_t steps, uint32_t operations, Instant now);

}  // namespace ccld::probe
