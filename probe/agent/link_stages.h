// How long the steps of one connection end spent before each stage, for one kernel (LinkStages of the wire).
//
// When a sample sees a stage's counter advance from a to b, b - a steps reached the stage since the sample before, on
// average halfway. (The two ends of a connection are not sampled equally often: with the time of the sample, the wire
// to the one that is sampled seldom would look slow.) The mean over the steps, of many over the later half, is what is
// sent: the difference of two stages is the mean time a step waited between them. That, and not a rate, is what tells a
// throttled wire from a delayed proxy. (Why the later half: schemas/wire/link_steps.h.)
//
// Proxies tell themselves when their stages were reached (ProxyTimes), so that is what is sent where it is known for
// the whole kernel.
//
// What happens to a step in the network is known when its proxy looks: one that seldom runs makes the network look
// slow. So the time in which it did not look is told as well (proxy_away.h).
//
// Threads: the diagnostic thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "probe/agent/clock.h"
#include "probe/agent/proxy_away.h"
#include "schemas/abi/frame_reader.h"
#include "schemas/wire/link_steps.h"

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
    if (steps_ == 0) origin_ns_ = time_ns;
    const auto since_origin = static_cast<double>(time_ns - origin_ns_);
    for (uint64_t between = wire::steps_between_marks(steps); between_marks_ < between; between_marks_ *= 2)
      for (uint32_t i = 0; i < wire::step_marks / 2; ++i) sum_at_ns_[i] = sum_at_ns_[2 * i + 1];
    for (uint64_t mark = steps_ / between_marks_ + 1; mark * between_marks_ <= steps; ++mark)
      sum_at_ns_[mark - 1] = sum_ns_ + static_cast<double>(mark * between_marks_ - steps_) * since_origin;
    sum_ns_ += static_cast<double>(steps - steps_) * since_origin;
    steps_ = steps;
  }

  uint32_t steps() const { return steps_; }
  // Of the steps from `first` on, a mark. Realtime; 0: there are none, or so many reached it that the mark is forgotten.
  int64_t mean_ns(uint32_t first) const {
    if (steps_ <= first || first % between_marks_ != 0) return 0;
    const double before_ns = first == 0 ? 0 : sum_at_ns_[first / between_marks_ - 1];
    return origin_ns_ + static_cast<int64_t>((sum_ns_ - before_ns) / (steps_ - first));
  }

 private:
  uint32_t steps_ = 0;
  int64_t origin_ns_ = 0;  // keeps the sums small
  double sum_ns_ = 0;
  uint64_t between_marks_ = 1;
  double sum_at_ns_[wire::step_marks] = {};  // of the steps up to each mark
};

constexpr uint32_t steps_unlimited = 0x7fffffff;

// Realtime; 0: not known.
struct StageMeans {
  int64_t gpu_ns = 0, ready_ns = 0, wire_ns = 0, done_ns = 0;
};

// What its proxy itself has told of its operation (ProxyTimes).
struct ToldTimes {
  uint32_t steps[abi::proxy_stages] = {};
  int64_t mean_ns[abi::proxy_stages] = {};  // realtime
};

// One connection end during one kernel. A lane that serves several peers one after the other has one link for each.
struct LinkTrack {
  uint16_t channel = 0;
  abi::Direction direction = abi::Direction::recv;
  uint8_t lane = 0;
  int32_t peer = -1;
  uint32_t base_step = 0;
  uint32_t limit = steps_unlimited;  // steps of the kernel, once it has ended
  uint32_t proxy_steps = 0;          // of its proxy's operation for this kernel; 0: not known
  Stage gpu, ready, wire, done;
  int32_t net_device = -1;
  bool has_proxy = false;
  bool proxy_worked = false;  // the proxy was seen at this kernel's first step, or beyond it
  ProxyAway away;
  ToldTimes told;

  // From which on steps count in the means.
  uint32_t first_step() const { return wire::first_counted_step(gpu.steps()); }
  // Proxies may still be at work when the kernel has ended.
  bool settled() const {
    if (!has_proxy || net_device < 0) return true;
    return wire.steps() >= gpu.steps() && done.steps() >= gpu.steps() &&
           (direction == abi::Direction::send || ready.steps() >= gpu.steps());
  }
  void proxy_reached(const abi::ProxyRecord& proxy, Instant now) {
    const int32_t ahead = abi::distance(base_step, static_cast<uint32_t>(proxy.base));
    away.look(proxy, ahead, is_awaited(proxy), now.monotonic_ns);
    has_proxy = true;
    net_device = proxy.net_device;
    proxy_worked |= ahead == 0;
    if (ahead == 0) proxy_steps = static_cast<uint32_t>(proxy.step_count);
    const int64_t time_ns = now.happened_realtime_ns();
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
  void told_times(const abi::ProxyOperationTimes& times, Instant now) {
    proxy_worked = true;
    for (unsigned stage = 0; stage < abi::proxy_stages; ++stage) {
      told.steps[stage] = times.steps[stage];
      if (times.steps[stage] == 0) continue;
      const uint64_t monotonic_ns = times.began_ns + times.sum_ns[stage] / times.steps[stage];
      told.mean_ns[stage] = now.realtime_ns - static_cast<int64_t>(now.monotonic_ns - monotonic_ns);
    }
  }
  // The proxy has told of all steps that count. It does not if the kernel carries several operations.
  bool is_told() const {
    const uint32_t all = gpu.steps() - first_step();
    const auto has = [&](abi::ProxyStage stage) { return all != 0 && told.steps[stage] == all; };
    return has(abi::stage_transmitted) &&
           (direction == abi::Direction::send ? has(abi::stage_done)
                                              : has(abi::stage_posted) && has(abi::stage_received));
  }
  // When the GPU moves on is only seen by samples. So how long its steps wait on their way from or to the proxy is the
  // difference of two means that are sampled alike.
  StageMeans means() const {
    const uint32_t first = first_step();
    StageMeans m{gpu.mean_ns(first), ready.mean_ns(first), wire.mean_ns(first), done.mean_ns(first)};
    if (is_told()) {
      const int64_t transmitted_ns = told.mean_ns[abi::stage_transmitted];
      int64_t& sampled_ns = direction == abi::Direction::send ? m.wire_ns : m.done_ns;
      if (sampled_ns != 0 && m.gpu_ns != 0) m.gpu_ns += transmitted_ns - sampled_ns;
      sampled_ns = transmitted_ns;
      if (direction == abi::Direction::send)
        m.done_ns = told.mean_ns[abi::stage_done];
      else
        m.ready_ns = told.mean_ns[abi::stage_posted], m.wire_ns = told.mean_ns[abi::stage_received];
    }
    if (direction == abi::Direction::send) m.ready_ns = m.gpu_ns;
    return m;
  }
  uint32_t proxy_away_us() const { return static_cast<uint32_t>(std::min<uint64_t>(away.ns() / 1000, UINT32_MAX)); }
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
