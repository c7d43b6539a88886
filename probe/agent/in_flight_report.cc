#include "probe/agent/in_flight_report.h"

#include <algorithm>
#include <utility>

namespace ccld::probe {

uint32_t age_ms(Instant now, uint64_t since_ns) {
  if (since_ns == 0) return age_never;
  if (since_ns >= now.monotonic_ns) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((now.monotonic_ns - since_ns) / ns_per_ms, age_never - 1));
}

void report_counts(const OperationRecords::Counts& counts, InFlightMessage& m) {
  m.entered_op_seq = counts.entered_op_seq;
  m.launched_op_seq = counts.launched_op_seq;
  m.entered_p2p = counts.entered_p2p;
  m.launched_p2p = counts.launched_p2p;
}

OperationInFlight InFlightReport::describe(const abi::OpRecord& record, uint64_t op_seq, const Kernel* kernel) const {
  OperationInFlight o;
  o.op_seq = op_seq;
  o.signature = signature_of(record);
  o.plan = record.plan;
  o.enter_age_ms = record.enter_monotonic_ns != 0 ? age_ms(now_, record.enter_monotonic_ns) : 0;
  o.launched = is_launched(record);
  o.launch_age_ms = o.launched && record.launch_monotonic_ns != 0 ? age_ms(now_, record.launch_monotonic_ns) : 0;
  const uint32_t stream_token = (record.signals & abi::signal_stream) != 0 ? frame_.stream_begun_token() : 0;
  o.begun = kernel != nullptr || (stream_token != 0 && o.launched && abi::distance(record.plan, stream_token) >= 0);
  o.signals = record.signals;
  return o;
}

void InFlightReport::channels(OperationInFlight& o, const Kernel* kernel, uint32_t token) const {
  const uint64_t mask = kernel != nullptr ? kernel->channel_mask : records_.cargo_of(token).channel_mask;
  for (uint64_t left = mask; left != 0; left &= left - 1) {
    const uint32_t c = first_channel(left);
    const KernelFollower::Channel& ch = kernels_.channel(c);
    const bool begun = kernel != nullptr && (kernel->begun >> c & 1) != 0;
    const bool ended = kernel != nullptr && (kernel->ended >> c & 1) != 0;
    const bool current = begun && !ended;
    uint32_t send = 0, recv = 0;
    if (begun)
      for (const LinkTrack& l : kernel->links)
        if (l.channel == c) (l.direction == abi::Direction::send ? send : recv) += l.gpu.steps();
    o.channels.emplace_back(token, static_cast<uint16_t>(c), begun, ended, begun ? age_ms(now_, ch.begun_seen_ns) : 0,
                            current ? age_ms(now_, ch.endpoints.polled_ns()) : age_never, send, recv);
  }
}

void InFlightReport::operations(InFlightMessage& m) const {
  const Kernels& running = kernels_.running();
  const Kernel* const current = running.empty() ? nullptr : running.front().get();
  m.kernel_plan = current != nullptr ? current->token : records_.next_token();
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
      channels(o, current, m.kernel_plan);
      channels_told = true;
    }
    m.operations.push_back(std::move(o));
  };
  for (const auto& kernel : running) {
    const CapturedPlans::Plan* plan = kernel->captured ? records_.captured().find(kernel->token) : nullptr;
    if (plan == nullptr) continue;
    for (const abi::OpRecord& record : plan->operations) {
      OperationInFlight o = describe(record, record.commit, kernel.get());
      o.replay = kernel->replay;
      add(std::move(o));
    }
  }
  for (const OperationRecords::Operation& o : records_.operations())
    if (!o.done)
      add(describe(o.record, o.number, o.known && o.record.plan != 0 ? kernel_with(running, o.record.plan) : nullptr));
}

void InFlightReport::calls(InFlightMessage& m) const {
  const Kernels& running = kernels_.running();
  const auto add = [&](const abi::P2pRecord& r, uint64_t call, uint32_t replay) {
    ++m.p2p_total;
    if (m.p2p.size() == p2p_reported_max) return;
    const bool launched = is_launched(r);
    m.p2p.emplace_back(
        call, r.pair_seq, r.bytes, r.peer, r.plan, r.enter_monotonic_ns != 0 ? age_ms(now_, r.enter_monotonic_ns) : 0,
        launched && r.launch_monotonic_ns != 0 ? age_ms(now_, r.launch_monotonic_ns) : 0, replay, r.direction, launched,
        r.plan != 0 && kernel_with(running, r.plan) != nullptr, r.flags, r.signals, uint8_t{0}, uint16_t{0});
  };
  for (const auto& kernel : running) {
    const CapturedPlans::Plan* plan = kernel->captured ? records_.captured().find(kernel->token) : nullptr;
    if (plan == nullptr) continue;
    for (const abi::P2pRecord& record : plan->calls) add(record, record.commit, kernel->replay);
  }
  for (const OperationRecords::Call& c : records_.calls())
    if (!c.done && c.known) add(c.record, c.number, 0);
}

void InFlightReport::endpoints(InFlightMessage& m) const {
  if (kernels_.running().empty()) return;
  const Kernel& kernel = *kernels_.running().front();
  for (uint64_t left = kernel.begun & kernel.channel_mask; left != 0; left &= left - 1) {
    const uint32_t c = first_channel(left);
    const KernelFollower::Channel& ch = kernels_.channel(c);
    // Endpoints of a channel that has ended are shown too, as they were last seen: without a wait.
    const bool ended = (kernel.ended >> c & 1) != 0;
    if (ended ? ch.runs.open() : ch.kernel != &kernel) continue;
    ch.endpoints.visit([&](unsigned direction, uint32_t i, const ChannelEndpoints::Endpoint& e) {
      const bool waits = !ended && e.wait != abi::WaitKind::none;
      const auto seen = static_cast<abi::WaitKind>(e.lane.wait_kind) == e.wait ? e.lane.seen_step : e.lane.current_step;
      m.lanes.emplace_back(kernel.token, e.lane.current_step, e.lane.base_step, waits ? e.want_step : 0,
                           waits ? seen : 0, static_cast<int32_t>(abi::lane_peer(e.lane.peer_and_warps)),
                           waits ? age_ms(now_, e.wait_since_ns) : 0, age_ms(now_, ch.endpoints.polled_ns(e)),
                           age_ms(now_, e.moved_ns), static_cast<uint16_t>(c), static_cast<uint8_t>(direction),
                           static_cast<uint8_t>(i / abi::lane_peers), static_cast<uint8_t>(i % abi::lane_peers),
                           static_cast<uint8_t>(waits ? e.wait : abi::WaitKind::none), waits && e.certain, uint8_t{0});
    });
  }
}

void InFlightReport::proxies(InFlightMessage& m) const {
  for (const ProxyWatch::Proxy& p : proxies_.all()) {
    if (!p.known) continue;
    const abi::ProxyRecord& r = p.record;
    m.proxies.emplace_back(r.base, r.posted, r.received, r.transmitted, r.done, r.step_count, r.operation, r.peer,
                           r.net_device, age_ms(now_, p.tick_ns), age_ms(now_, p.moved_ns),
                           static_cast<uint16_t>(r.channel), r.direction, uint8_t{0});
  }
}

}  // namespace ccld::probe
