#include "decision/model/snapshot.h"

#include <algorithm>

#include "decision/model/communicator.h"

namespace ccld::decision {

bool shows_replay(const InFlight& m) {
  return std::any_of(m.operations.begin(), m.operations.end(),
                     [](const InFlightOp& o) { return o.replay != 0 && o.begun; });
}

bool shows_p2p(const InFlight& m) {
  return std::any_of(m.p2p.begin(), m.p2p.end(),
                     [](const P2pCall& c) { return (c.launched || c.begun) && !c.only_captured(); });
}

uint64_t waiting_channels(const InFlight& m) {
  uint64_t channels = 0;
  for (const LaneState& l : m.lanes)
    if (l.wait != abi::WaitKind::none) channels |= uint64_t{1} << l.channel % abi::channels_max;
  return channels;
}

void keep(InFlight& last, const InFlight& m) {
  const bool details = m.late || m.moved_age_ms >= details_after_ms;
  static const InFlight nothing;
  InFlight next = details ? m : nothing;
  if (!details) {
    next.comm = m.comm;
    next.rank = m.rank;
    next.sample_monotonic_ns = m.sample_monotonic_ns;
    next.entered = m.entered;
    next.launched = m.launched;
    next.completed = m.completed;
    next.moved_age_ms = m.moved_age_ms;
    next.movement = m.movement;
    next.operations_total = m.operations_total;
    next.proxy_tick_age_ms = m.proxy_tick_age_ms;
    next.late = m.late;
    next.state = m.state;
    next.p2p = m.p2p;
    next.p2p_total = m.p2p_total;
    next.entered_p2p = m.entered_p2p;
    next.launched_p2p = m.launched_p2p;
    next.kernel_plan = m.kernel_plan;
    next.kernel_replay = m.kernel_replay;
    next.stopped = m.stopped;
    next.operations.reserve(m.operations.size());
    for (const InFlightOp& o : m.operations) {
      InFlightOp& own = next.operations.emplace_back();
      own.op = o.op;
      own.signature = o.signature;
      own.plan = o.plan;
      own.enter_age_ms = o.enter_age_ms;
      own.launch_age_ms = o.launch_age_ms;
      own.launched = o.launched;
      own.begun = o.begun;
      own.replay = o.replay;
      own.signals = o.signals;
    }
  }
  if (!std::is_sorted(next.lanes.begin(), next.lanes.end(), ByChannel()))
    std::stable_sort(next.lanes.begin(), next.lanes.end(), ByChannel());
  last = std::move(next);
}

}  // namespace ccld::decision
