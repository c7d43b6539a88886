// The part of CommTracker that says what was seen.
#include <algorithm>

#include "probe/agent/comm_tracker.h"

namespace ccld::probe {
namespace {

uint32_t age_ms(Instant now, uint64_t since_ns) {
  if (since_ns == 0) return age_never;
  if (since_ns >= now.monotonic_ns) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((now.monotonic_ns - since_ns) / ns_per_ms, age_never - 1));
}

}  // namespace

RoundsMessage CommTracker::take_rounds(Instant now, bool everything) {
  RoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  std::vector<PendingRound> taken;
  while (!pending_.empty() && (everything || !pending_.front().open)) {
    PendingRound& front = pending_.front();
    if (front.open) {
      for (LinkTrack& link : front.links) link.close(now.realtime_ns);
      --open_links_;
    }
    taken.push_back(std::move(front));
    pending_.pop_front();
  }
  // A group may finish its operations in another order than they were entered.
  std::stable_sort(taken.begin(), taken.end(), [](const PendingRound& a, const PendingRound& b) {
    return a.round.op_seq != b.round.op_seq ? a.round.op_seq < b.round.op_seq : a.round.replay < b.round.replay;
  });
  std::vector<const PendingRound*> with_links;
  for (const PendingRound& pending : taken) {
    message.rounds.push_back(pending.round);
    if (!pending.links.empty()) with_links.push_back(&pending);
  }
  std::stable_sort(with_links.begin(), with_links.end(),
                   [](const PendingRound* a, const PendingRound* b) { return a->round.samples > b->round.samples; });
  for (const PendingRound* pending : with_links) {
    if (message.links.size() + pending->links.size() > links_per_message_max) break;
    for (const LinkTrack& l : pending->links) {
      if (l.gpu.steps() == 0) continue;
      const uint32_t first = l.first_step();
      const int64_t gpu = l.gpu.mean_ns(first);
      const int64_t ready = l.direction == abi::Direction::send ? gpu : l.ready.mean_ns(first);
      message.links.emplace_back(pending->round.op_seq, gpu, ready, l.wire.mean_ns(first), l.done.mean_ns(first), l.peer,
                                 l.has_proxy ? l.net_device : -1, l.gpu.steps(), l.channel,
                                 static_cast<uint8_t>(l.direction), static_cast<uint8_t>(l.lane / abi::lane_peers));
      message.link_proxy_away_us.push_back(l.proxy_away_us());
      message.link_first_step.push_back(first);
    }
  }
  return message;
}

P2pRoundsMessage CommTracker::take_p2p() {
  P2pRoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  message.rounds.assign(pending_p2p_.begin(), pending_p2p_.end());
  pending_p2p_.clear();
  return message;
}

const CommTracker::Kernel* CommTracker::kernel_with(uint32_t token) const {
  for (const auto& kernel : kernels_)
    if (kernel->token == token) return kernel.get();
  return nullptr;
}

// Of the oldest kernel that was handed over and has not begun; 0: none.
uint32_t CommTracker::next_token() const {
  uint32_t token = 0;
  const auto look = [&](const auto& items) {
    for (const auto& item : items) {
      if (item.done || !item.known || !has_rows(item.record)) continue;
      if (token == 0 || abi::distance(token, item.record.plan) < 0) token = item.record.plan;
    }
  };
  look(operations_);
  look(calls_);
  return token;
}

InFlightMessage CommTracker::in_flight_message(Instant now) const {
  InFlightMessage m;
  m.comm_uid = comm_uid_;
  m.rank = rank_;
  m.sample_monotonic_ns = now.monotonic_ns;
  m.entered_op_seq = api_.entered_op_seq;
  m.launched_op_seq = api_.launched_op_seq;
  m.entered_p2p = api_.entered_p2p;
  m.launched_p2p = api_.launched_p2p;
  m.completed_op_seq = completed_op_seq_;
  m.moved_age_ms = age_ms(now, moved_ns_);
  m.movement = movement_;
  m.proxy_tick_age_ms = age_ms(now, proxy_tick_ns_);
  m.late = late(now);
  m.state = static_cast<uint32_t>(frame_.state());
  if (!in_flight()) return m;
  report_operations(m, now);
  report_calls(m, now);
  if (!kernels_.empty()) report_lanes(m, now, *kernels_.front());
  for (const ProxyTrack& p : proxies_) {
    if (!p.known) continue;
    const abi::ProxyRecord& r = p.record;
    m.proxies.emplace_back(r.base, r.posted, r.received, r.transmitted, r.done, r.step_count, r.operation, r.peer,
                           r.net_device, age_ms(now, p.tick_ns), age_ms(now, p.moved_ns),
                           static_cast<uint16_t>(r.channel), r.direction, uint8_t{0});
  }
  return m;
}

InFlightMessage CommTracker::stopped_message(Instant now) const {
  const Api api = read_api();
  InFlightMessage m;
  m.comm_uid = comm_uid_;
  m.rank = rank_;
  m.sample_monotonic_ns = now.monotonic_ns;
  m.entered_op_seq = api.entered_op_seq;
  m.launched_op_seq = api.launched_op_seq;
  m.entered_p2p = api.entered_p2p;
  m.launched_p2p = api.launched_p2p;
  m.completed_op_seq = completed_op_seq_;
  m.moved_age_ms = age_ms(now, moved_ns_);
  m.movement = movement_;
  m.proxy_tick_age_ms = age_never;
  m.state = static_cast<uint32_t>(frame_.state());
  m.stopped = true;
  return m;
}

OperationInFlight CommTracker::describe(const abi::OpRecord& record, uint64_t op_seq, Instant now,
                                        const Kernel* kernel) const {
  OperationInFlight o;
  o.op_seq = op_seq;
  o.signature = signature(record);
  o.plan = record.plan;
  o.enter_age_ms = record.enter_monotonic_ns != 0 ? age_ms(now, record.enter_monotonic_ns) : 0;
  o.launched = (record.flags & abi::op_launched) != 0;
  o.launch_age_ms = o.launched && record.launch_monotonic_ns != 0 ? age_ms(now, record.launch_monotonic_ns) : 0;
  const uint32_t stream_token = (record.signals & abi::signal_stream) != 0 ? frame_.stream_begun_token() : 0;
  o.begun = kernel != nullptr || (stream_token != 0 && o.launched && abi::distance(record.plan, stream_token) >= 0);
  o.signals = record.signals;
  return o;
}

void CommTracker::report_channels(OperationInFlight& o, Instant now, const Kernel* kernel, uint32_t token) const {
  const uint64_t mask = kernel != nullptr ? kernel->channel_mask : cargo_of(token).channel_mask;
  for (uint64_t left = mask; left != 0; left &= left - 1) {
    const auto c = static_cast<uint32_t>(__builtin_ctzll(left));
    const ChannelTrack& ch = channels_[c];
    const bool begun = kernel != nullptr && (kernel->begun >> c & 1) != 0;
    const bool ended = kernel != nullptr && (kernel->ended >> c & 1) != 0;
    const bool current = begun && !ended;
    uint32_t send = 0, recv = 0;
    if (begun)
      for (const LinkTrack& l : kernel->links)
        if (l.channel == c) (l.direction == abi::Direction::send ? send : recv) += l.gpu.steps();
    o.channels.emplace_back(token, static_cast<uint16_t>(c), begun, ended, begun ? age_ms(now, ch.begun_seen_ns) : 0,
                            current ? age_ms(now, ch.polled_ns) : age_never, send, recv);
  }
}

void CommTracker::report_operations(InFlightMessage& m, Instant now) const {
  const Kernel* const current = kernels_.empty() ? nullptr : kernels_.front().get();
  m.kernel_plan = current != nullptr ? current->token : next_token();
  m.kernel_replay = current != nullptr ? current->replay : 0;
  // The running kernel's first operation tells of its channels, and is reported even if a group has entered many
  // before.
  bool channels_told = false;
  const auto add = [&](OperationInFlight o) {
    ++m.operations_total;
    const bool tells = !channels_told && m.kernel_plan != 0 && o.plan == m.kernel_plan && o.replay == m.kernel_replay;
    if (m.operations.size() == operations_reported_max) {
      if (!tells) return;
      m.operations.pop_back();
    }
    if (tells) {
      report_channels(o, now, current, m.kernel_plan);
      channels_told = true;
    }
    m.operations.push_back(std::move(o));
  };
  for (const auto& kernel : kernels_) {
    if (!kernel->captured) continue;
    const auto plan = captured_.find(kernel->token);
    if (plan == captured_.end()) continue;
    for (const abi::OpRecord& record : plan->second.operations) {
      OperationInFlight o = describe(record, record.commit, now, kernel.get());
      o.replay = kernel->replay;
      add(std::move(o));
    }
  }
  for (const Operation& o : operations_)
    if (!o.done)
      add(describe(o.record, o.number, now, o.known && o.record.plan != 0 ? kernel_with(o.record.plan) : nullptr));
}

void CommTracker::report_calls(InFlightMessage& m, Instant now) const {
  const auto add = [&](const abi::P2pRecord& r, uint64_t call, uint32_t replay) {
    ++m.p2p_total;
    if (m.p2p.size() == p2p_reported_max) return;
    const bool launched = (r.flags & abi::op_launched) != 0;
    m.p2p.emplace_back(call, r.pair_seq, r.bytes, r.peer, r.plan,
                       r.enter_monotonic_ns != 0 ? age_ms(now, r.enter_monotonic_ns) : 0,
                       launched && r.launch_monotonic_ns != 0 ? age_ms(now, r.launch_monotonic_ns) : 0, replay,
                       r.direction, launched, r.plan != 0 && kernel_with(r.plan) != nullptr, r.flags, r.signals, uint8_t{0},
                       uint16_t{0});
  };
  for (const auto& kernel : kernels_) {
    if (!kernel->captured) continue;
    const auto plan = captured_.find(kernel->token);
    if (plan == captured_.end()) continue;
    for (const abi::P2pRecord& record : plan->second.calls) add(record, record.commit, kernel->replay);
  }
  for (const Call& c : calls_)
    if (!c.done && c.known) add(c.record, c.number, 0);
}

void CommTracker::report_lanes(InFlightMessage& m, Instant now, const Kernel& kernel) const {
  for (uint64_t left = kernel.begun & kernel.channel_mask; left != 0; left &= left - 1) {
    const auto c = static_cast<uint32_t>(__builtin_ctzll(left));
    const ChannelTrack& ch = channels_[c];
    // Lanes of a channel that has ended are shown too, as they were last seen: without a wait.
    const bool ended = (kernel.ended >> c & 1) != 0;
    if (ch.lanes == nullptr || (ended ? ch.runs.open() : ch.kernel != &kernel)) continue;
    for (unsigned d = 0; d < abi::directions; ++d) {
      for (uint32_t in_use = ch.lanes_in_use[d]; in_use != 0; in_use &= in_use - 1) {
        const auto i = static_cast<uint32_t>(__builtin_ctz(in_use));
        const LaneTrack& t = ch.lane(d, i);
        const bool waits = !ended && t.wait != abi::WaitKind::none;
        // A group that polls in LL or LL128 does so on behalf of its lanes.
        uint64_t polled_ns = t.polled_ns;
        const uint32_t first = abi::lane_first_warp(t.lane.peer_and_warps);
        const uint32_t end = std::min(first + abi::lane_warp_count(t.lane.peer_and_warps), abi::warps_max);
        for (uint32_t w = first; w < end; ++w) polled_ns = std::max(polled_ns, ch.warp_polled_ns[w]);
        const auto seen =
            static_cast<abi::WaitKind>(t.lane.wait_kind) == t.wait ? t.lane.seen_step : t.lane.current_step;
        m.lanes.emplace_back(
            kernel.token, t.lane.current_step, t.lane.base_step, waits ? t.want_step : 0, waits ? seen : 0,
            static_cast<int32_t>(abi::lane_peer(t.lane.peer_and_warps)), waits ? age_ms(now, t.wait_since_ns) : 0,
            age_ms(now, polled_ns), age_ms(now, t.moved_ns), static_cast<uint16_t>(c), static_cast<uint8_t>(d),
            static_cast<uint8_t>(i / abi::lane_peers), static_cast<uint8_t>(i % abi::lane_peers),
            static_cast<uint8_t>(waits ? t.wait : abi::WaitKind::none), waits && t.certain, uint8_t{0});
      }
    }
  }
}

}  // namespace ccld::probe
