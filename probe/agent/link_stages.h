// How long the steps of one connection end spent before each stage, for one kernel (LinkStages of the wire).
//
// When a sample at time t sees a stage's counter advance from a to b, b - a steps reached the stage at t. The mean over
// all steps of the kernel is what is sent: the difference of two stages is the mean time a step waited between them.
// That, and not a rate, is what tells a throttled wire from a delayed proxy.
//
// What happens to a step in the network is known when its proxy looks: one that seldom runs makes the network look slow.
// So the time in which it had something to do and samples saw it not look is summed as well.
//
// Threads: the diagnostic thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schemas/abi/frame_reader.h"

namespace ccld::probe {

// One stage. Steps are connection steps modulo 2^32, counted from the kernel's first.
class Stage {
 public:
  // Steps beyond `limit` belong to a later kernel.
  void reached(uint32_t base_step, uint32_t counter, uint32_t limit, int64_t time_ns) {
    const int32_t seen = abi::distance(base_step, counter);
    if (seen <= 0) return;
    const uint32_t steps = static_cast<uint32_t>(seen) < limit ? static_cast<uint32_t>(seen) : limit;
    if (steps <= steps_) return;
    const uint32_t advance = steps - steps_;
    if (steps_ == 0) origin_ns_ = time_ns;
    sum_ns_ += static_cast<double>(advance) * static_cast<double>(time_ns - origin_ns_);
    steps_ = steps;
  }

  uint32_t steps() const { return steps_; }
  // Realtime; 0 if no step reached the stage.
  int64_t mean_ns() const { return steps_ == 0 ? 0 : origin_ns_ + static_cast<int64_t>(sum_ns_ / steps_); }

 private:
  uint32_t steps_ = 0;
  int64_t origin_ns_ = 0;  // keeps the sums small
  double sum_ns_ = 0;
};

constexpr uint32_t steps_unlimited = 0x7fffffff;

// One connection end during one kernel. A lane that serves several peers one after the other has one link for each.
struct LinkTrack {
  uint16_t channel = 0;
  abi::Direction direction = abi::Direction::recv;
  uint8_t lane = 0;
  int32_t peer = -1;
  uint32_t base_step = 0;
  uint32_t limit = steps_unlimited;  // steps of the kernel, once it has ended
  Stage gpu, ready, wire, done;
  int32_t net_device = -1;
  bool has_proxy = false;
  bool proxy_worked = false;  // the proxy was seen at this kernel's first step, or beyond it
  uint64_t proxy_away_ns = 0;
  int64_t sampled_ns = 0;

  // Proxies may still be at work when the kernel has ended.
  bool settled() const {
    if (!has_proxy || net_device < 0) return true;
    return wire.steps() >= gpu.steps() && done.steps() >= gpu.steps() &&
           (direction == abi::Direction::send || ready.steps() >= gpu.steps());
  }
  // `unvisited_ns`: time up to now in which the proxy was seen not to look.
  void proxy_reached(const abi::ProxyRecord& proxy, uint64_t unvisited_ns, int64_t time_ns) {
    if (has_proxy && time_ns != sampled_ns && is_awaited(proxy)) proxy_away_ns += unvisited_ns;
    sampled_ns = time_ns;
    has_proxy = true;
    net_device = proxy.net_device;
    proxy_worked |= static_cast<uint32_t>(proxy.base) == base_step;
    const auto low = [](uint64_t steps) { return static_cast<uint32_t>(steps); };
    if (direction == abi::Direction::send) {
      wire.reached(base_step, low(proxy.transmitted), limit, time_ns);
      done.reached(base_step, low(proxy.done), limit, time_ns);
    } else {
      ready.reached(base_step, low(proxy.posted), limit, time_ns);
      wire.reached(base_step, low(proxy.received), limit, time_ns);
      done.reached(base_step, low(proxy.transmitted), limit, time_ns);
    }
  }
  // There is something to do for it.
  bool is_awaited(const abi::ProxyRecord& proxy) const {
    const int32_t ahead = abi::distance(base_step, static_cast<uint32_t>(proxy.base));
    if (ahead > 0) return false;
    const bool sends = direction == abi::Direction::send;
    if (sends && done.steps() >= gpu.steps()) return false;
    if (ahead < 0) return limit == steps_unlimited;  // it has not begun
    return (sends ? proxy.done : proxy.transmitted) < proxy.base + proxy.step_count;
  }
  uint32_t proxy_away_us() const { return static_cast<uint32_t>(std::min<uint64_t>(proxy_away_ns / 1000, UINT32_MAX)); }
  // Nobody waits any longer: steps that have not reached a stage by now get there now at the earliest. Otherwise the
  // means would be of different steps, and a stage that is stuck would look fast.
  void close(int64_t time_ns) {
    if (settled()) return;
    if (!proxy_worked) {
      has_proxy = false;
      return;
    }
    const uint32_t last = base_step + gpu.steps();
    wire.reached(base_step, last, limit, time_ns);
    done.reached(base_step, last, limit, time_ns);
    if (direction == abi::Direction::recv) ready.reached(base_step, last, limit, time_ns);
  }
};

}  // namespace ccld::probe
