// How long the steps of one connection end spent before each stage, for one kernel (LinkStages of the wire).
//
// When a sample at time t sees a stage's counter advance from a to b, b - a steps reached the stage at t. The mean over
// all steps of the kernel is what is sent: the difference of two stages is the mean time a step waited between them.
// That, and not a rate, is what tells a throttled wire from a delayed proxy.
//
// That a step has been sent or has arrived is known when its proxy looks. A proxy that seldom runs makes the network look
// slow: so the time in which samples saw it not look at all is summed as well.
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

// The visits of a proxy to one of its connections, over all operations.
class ProxyVisits {
 public:
  // `before_ns`: the sample before this one. Between two samples a proxy that does not look is not told from one that
  // does.
  void sampled(const abi::ProxyRecord& old, const abi::ProxyRecord& now, uint64_t before_ns, uint64_t now_ns) {
    if (old.ticks != now.ticks) {
      unvisited_ns_ = before_ns > visited_ns_ ? before_ns - visited_ns_ : 0;
      visited_ns_ = now_ns;
      waiting_ = under_way(old);
    }
    const auto found = static_cast<int64_t>(found_by_proxy(now) - found_by_proxy(old));
    if (found <= 0 || waiting_ == 0) return;
    const uint64_t waited = std::min(static_cast<uint64_t>(found), waiting_);
    waiting_ -= waited;
    step_ns_ += waited * unvisited_ns_;
  }
  void start(uint64_t now_ns) { visited_ns_ = now_ns; }
  uint64_t visited_ns() const { return visited_ns_; }
  // Steps that waited for a look, each for so long.
  uint64_t step_ns() const { return step_ns_; }

 private:
  static bool sends(const abi::ProxyRecord& r) { return r.direction == static_cast<uint8_t>(abi::Direction::send); }
  static uint64_t found_by_proxy(const abi::ProxyRecord& r) { return sends(r) ? r.done : r.received; }
  static uint64_t under_way(const abi::ProxyRecord& r) {
    const uint64_t begun = sends(r) ? r.transmitted : r.posted, found = found_by_proxy(r);
    return begun > found ? begun - found : 0;
  }
  uint64_t visited_ns_ = 0;    // the sample that saw the last visit
  uint64_t unvisited_ns_ = 0;  // before that visit
  uint64_t waiting_ = 0;       // steps in the network since before unvisited_ns_
  uint64_t step_ns_ = 0;
};

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
  uint64_t unvisited_step_ns = 0;
  int proxy_index = -1;       // of the one that was seen last, and its step_ns() then
  uint64_t proxy_step_ns = 0;

  // Proxies may still be at work when the kernel has ended.
  bool settled() const {
    if (!has_proxy || net_device < 0) return true;
    return wire.steps() >= gpu.steps() && done.steps() >= gpu.steps() &&
           (direction == abi::Direction::send || ready.steps() >= gpu.steps());
  }
  void proxy_reached(int index, const abi::ProxyRecord& proxy, const ProxyVisits& visits, int64_t time_ns) {
    has_proxy = true;
    net_device = proxy.net_device;
    proxy_worked |= static_cast<uint32_t>(proxy.base) == base_step;
    const uint32_t found_before = found_by_proxy().steps();
    const auto low = [](uint64_t steps) { return static_cast<uint32_t>(steps); };
    if (direction == abi::Direction::send) {
      wire.reached(base_step, low(proxy.transmitted), limit, time_ns);
      done.reached(base_step, low(proxy.done), limit, time_ns);
    } else {
      ready.reached(base_step, low(proxy.posted), limit, time_ns);
      wire.reached(base_step, low(proxy.received), limit, time_ns);
      done.reached(base_step, low(proxy.transmitted), limit, time_ns);
    }
    if (proxy_index == index && found_by_proxy().steps() > found_before)
      unvisited_step_ns += visits.step_ns() - proxy_step_ns;
    proxy_index = index;
    proxy_step_ns = visits.step_ns();
  }
  // Mean over the steps, at most what fits.
  uint32_t unvisited_mean_us() const {
    const uint32_t steps = found_by_proxy().steps();
    if (!has_proxy || steps == 0) return 0;
    return static_cast<uint32_t>(std::min<uint64_t>(unvisited_step_ns / steps / 1000, UINT32_MAX));
  }
  const Stage& found_by_proxy() const { return direction == abi::Direction::send ? done : wire; }
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
