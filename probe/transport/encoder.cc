#include "probe/transport/encoder.h"

#include <algorithm>
#include <cstring>

namespace ccld::probe {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

template <class Row, class Get>
auto column(FlatBufferBuilder& builder, const std::vector<Row>& rounds, Get get) {
  using Value = decltype(get(rounds[0]));
  Value* values = nullptr;
  const auto offset = builder.CreateUninitializedVector<Value>(rounds.size(), &values);
  for (size_t i = 0; i < rounds.size(); ++i) flatbuffers::WriteScalar(values + i, get(rounds[i]));
  return Offset<flatbuffers::Vector<Value>>(offset);
}

struct LinkOffsets {
  Offset<flatbuffers::Vector<const wire::LinkStages*>> links;
  Offset<flatbuffers::Vector<uint32_t>> away, first_step;
};

LinkOffsets encode_links(FlatBufferBuilder& builder, const LinkColumns& m) {
  LinkOffsets offsets;
  offsets.links = builder.CreateVectorOfStructs(m.links);
  // Proxies that look all the time are the rule.
  if (std::any_of(m.link_proxy_away_us.begin(), m.link_proxy_away_us.end(), [](uint32_t us) { return us != 0; }))
    offsets.away = builder.CreateVector(m.link_proxy_away_us);
  if (!m.link_first_step.empty()) offsets.first_step = builder.CreateVector(m.link_first_step);
  return offsets;
}

Offset<void> encode(FlatBufferBuilder& builder, const CommUpMessage& m) {
  std::vector<Offset<wire::ChannelTopology>> channels;
  for (const ChannelTopology& c : m.identity.channels) {
    std::vector<int32_t> down;
    for (int child : c.tree_down)
      if (child >= 0) down.push_back(child);
    channels.push_back(wire::CreateChannelTopologyDirect(builder, static_cast<uint16_t>(c.channel), c.ring_prev,
                                                         c.ring_next, c.tree_up, &down, c.tree_depth));
  }
  std::vector<Offset<wire::NetConnection>> connections;
  for (const NetConnection& c : m.connections)
    connections.push_back(wire::CreateNetConnectionDirect(builder, static_cast<uint16_t>(c.channel),
                                                          static_cast<uint8_t>(c.direction), c.peer, c.net_device,
                                                          c.net_name.c_str()));
  return wire::CreateCommUpDirect(
             builder, m.identity.comm_uid, m.identity.comm_hash, m.comm_number, m.identity.comm_name.c_str(), m.rank,
             m.rank_count, m.identity.node, m.identity.node_count, m.identity.local_rank, m.cuda_device,
             m.identity.gpu_bus_id.c_str(), m.identity.host.c_str(), &channels, &connections, m.mode,
             m.identity.parent_uid, m.hidden)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const CommDownMessage& m) {
  return wire::CreateCommDown(builder, m.comm_uid, m.rank, m.state, m.last_entered_op_seq).Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const RoundsMessage& m) {
  std::vector<wire::OpSignature> signatures;
  std::vector<uint16_t> signature_index;
  for (const FinishedRound& r : m.rounds) {
    // Newest first: a training loop repeats the last few.
    const auto equal = [&r](const wire::OpSignature& s) { return std::memcmp(&s, &r.signature, sizeof s) == 0; };
    const auto found = std::find_if(signatures.rbegin(), signatures.rend(), equal);
    size_t index = signatures.size();
    if (found != signatures.rend())
      index = static_cast<size_t>(signatures.rend() - found) - 1;
    else
      signatures.push_back(r.signature);
    signature_index.push_back(static_cast<uint16_t>(index));
  }
  using R = FinishedRound;
  const auto op_seq = column(builder, m.rounds, [](const R& r) { return r.op_seq; });
  const auto signatures_offset = builder.CreateVectorOfStructs(signatures);
  const auto index_offset = builder.CreateVector(signature_index);
  const auto enter = column(builder, m.rounds, [](const R& r) { return r.enter_monotonic_ns; });
  const auto launch = column(builder, m.rounds, [](const R& r) { return r.launch_monotonic_ns; });
  const auto begin = column(builder, m.rounds, [](const R& r) { return r.begin_device_ns; });
  const auto end = column(builder, m.rounds, [](const R& r) { return r.end_device_ns; });
  const auto send_steps = column(builder, m.rounds, [](const R& r) { return r.send_steps; });
  const auto recv_steps = column(builder, m.rounds, [](const R& r) { return r.recv_steps; });
  const auto send_changes = column(builder, m.rounds, [](const R& r) { return r.send_changes; });
  const auto recv_changes = column(builder, m.rounds, [](const R& r) { return r.recv_changes; });
  const auto samples = column(builder, m.rounds, [](const R& r) { return r.samples; });
  const auto flags = column(builder, m.rounds, [](const R& r) { return r.flags; });
  const LinkOffsets links = encode_links(builder, m);
  // Hardly any round is a replay.
  Offset<flatbuffers::Vector<uint32_t>> replay;
  if (std::any_of(m.rounds.begin(), m.rounds.end(), [](const R& r) { return r.replay != 0; }))
    replay = column(builder, m.rounds, [](const R& r) { return r.replay; });
  const auto signals = column(builder, m.rounds, [](const R& r) { return r.signals; });
  return wire::CreateRounds(builder, m.comm_uid, m.rank, op_seq, signatures_offset, index_offset, enter, launch, begin,
                            end, send_steps, recv_steps, send_changes, recv_changes, samples, flags, links.links,
                            replay, signals, links.away, links.first_step)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const P2pRoundsMessage& m) {
  using R = FinishedP2p;
  const auto peer = column(builder, m.rounds, [](const R& r) { return r.peer; });
  const auto direction = column(builder, m.rounds, [](const R& r) { return r.direction; });
  const auto pair_seq = column(builder, m.rounds, [](const R& r) { return r.pair_seq; });
  const auto bytes = column(builder, m.rounds, [](const R& r) { return r.bytes; });
  const auto enter = column(builder, m.rounds, [](const R& r) { return r.enter_monotonic_ns; });
  const auto launch = column(builder, m.rounds, [](const R& r) { return r.launch_monotonic_ns; });
  const auto begin = column(builder, m.rounds, [](const R& r) { return r.begin_device_ns; });
  const auto end = column(builder, m.rounds, [](const R& r) { return r.end_device_ns; });
  const auto flags = column(builder, m.rounds, [](const R& r) { return r.flags; });
  const auto replay = column(builder, m.rounds, [](const R& r) { return r.replay; });
  const auto plan = column(builder, m.rounds, [](const R& r) { return r.plan; });
  const auto send_steps = column(builder, m.rounds, [](const R& r) { return r.send_steps; });
  const auto recv_steps = column(builder, m.rounds, [](const R& r) { return r.recv_steps; });
  // Most transfers are too short for stages.
  const LinkOffsets links = m.links.empty() ? LinkOffsets() : encode_links(builder, m);
  return wire::CreateP2pRounds(builder, m.comm_uid, m.rank, peer, direction, pair_seq, bytes, enter, launch, begin, end,
                               flags, replay, plan, send_steps, recv_steps, links.links, links.away, links.first_step)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const CommInitMessage& m) {
  return wire::CreateCommInit(builder, m.comm_hash, m.rank, m.rank_count, static_cast<uint8_t>(m.stage), m.stage_age_ms,
                              m.enter_age_ms, m.result, m.cuda_device, m.number)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const MetricsMessage& m) {
  std::vector<Offset<wire::Metric>> metrics;
  metrics.reserve(m.metrics.size());
  for (const MetricValue& v : m.metrics) {
    const auto instance = v.instance.empty() ? Offset<flatbuffers::String>() : builder.CreateString(v.instance);
    metrics.push_back(wire::CreateMetric(builder, static_cast<uint16_t>(v.id), instance, v.value));
  }
  return wire::CreateMetricsDirect(builder, &metrics).Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const NetQueuesMessage& m) {
  const auto queues = builder.CreateVectorOfStructs(m.queues);
  const auto names = builder.CreateVectorOfStrings(m.device_names);
  return wire::CreateNetQueues(builder, queues, names).Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const ControlStateMessage& m) {
  const ControlInForce& s = m.state;
  return wire::CreateControlStateDirect(builder, s.applied_sequence, s.refused_fields, s.running, s.sample_us, s.log,
                                        s.budget_ppm, s.period_us, s.endpoint.c_str())
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const InFlightMessage& m) {
  std::vector<Offset<wire::InFlightOp>> operations;
  for (const OperationInFlight& o : m.operations) {
    const auto channels = builder.CreateVectorOfStructs(o.channels);
    operations.push_back(wire::CreateInFlightOp(builder, o.op_seq, &o.signature, o.plan, o.enter_age_ms,
                                                o.launch_age_ms, o.launched, o.begun, channels, o.replay, o.signals));
  }
  const auto operations_offset = builder.CreateVector(operations);
  const auto lanes = builder.CreateVectorOfStructs(m.lanes);
  const auto proxies = builder.CreateVectorOfStructs(m.proxies);
  const auto p2p = builder.CreateVectorOfStructs(m.p2p);
  return wire::CreateInFlight(builder, m.comm_uid, m.rank, m.sample_monotonic_ns, m.entered_op_seq, m.launched_op_seq,
                              m.completed_op_seq, m.moved_age_ms, m.movement, operations_offset, m.operations_total,
                              lanes, proxies, m.proxy_tick_age_ms, m.late, m.state, p2p, m.p2p_total, m.entered_p2p,
                              m.launched_p2p, m.kernel_plan, m.kernel_replay, m.stopped)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const HealthMessage& m) {
  std::vector<Offset<wire::Sibling>> siblings;
  for (const SiblingState& s : m.siblings) {
    std::vector<Offset<wire::LastOperations>> last;
    for (const LastOperations& o : s.last_operations)
      last.push_back(wire::CreateLastOperations(builder, o.comm_uid, o.rank, o.entered_op_seq, o.launched_op_seq,
                                                o.begun_op_seq));
    const auto last_offset = last.empty() ? 0 : builder.CreateVector(last);
    siblings.push_back(wire::CreateSibling(builder, s.pid, s.pid_start_ticks, static_cast<uint8_t>(s.state),
                                           s.state_age_ms, last_offset));
  }
  const auto siblings_offset = builder.CreateVector(siblings);
  const Health& h = m.health;
  return wire::CreateAgentHealth(builder, h.samples, h.late_samples, h.lapped_rounds, h.dropped_batches,
                                 h.dropped_rounds, h.send_errors, h.sent_batches, h.sent_bytes, h.cpu_ns,
                                 siblings_offset)
      .Union();
}

wire::Payload payload_type(const Message& message) {
  struct {
    wire::Payload operator()(const CommUpMessage&) const { return wire::Payload::CommUp; }
    wire::Payload operator()(const CommDownMessage&) const { return wire::Payload::CommDown; }
    wire::Payload operator()(const RoundsMessage&) const { return wire::Payload::Rounds; }
    wire::Payload operator()(const InFlightMessage&) const { return wire::Payload::InFlight; }
    wire::Payload operator()(const HealthMessage&) const { return wire::Payload::AgentHealth; }
    wire::Payload operator()(const CommInitMessage&) const { return wire::Payload::CommInit; }
    wire::Payload operator()(const P2pRoundsMessage&) const { return wire::Payload::P2pRounds; }
    wire::Payload operator()(const MetricsMessage&) const { return wire::Payload::Metrics; }
    wire::Payload operator()(const NetQueuesMessage&) const { return wire::Payload::NetQueues; }
    wire::Payload operator()(const ControlStateMessage&) const { return wire::Payload::ControlState; }
  } type;
  return std::visit(type, message);
}

}  // namespace

void BatchEncoder::begin() {
  if (!finished_) return;
  builder_.Clear();
  messages_.clear();
  finished_ = false;
}

void BatchEncoder::add(const Message& message) {
  begin();
  const auto payload = std::visit([this](const auto& m) { return encode(builder_, m); }, message);
  messages_.push_back(wire::CreateMessage(builder_, payload_type(message), payload));
}

BatchEncoder::Bytes BatchEncoder::finish(const Sender& sender, uint64_t batch_seq, int64_t realtime_ns,
                                         uint64_t monotonic_ns, bool acknowledge) {
  begin();
  const auto batch = wire::CreateBatchDirect(builder_, wire_schema_version, sender.job.c_str(), sender.host.c_str(),
                                             sender.boot_id.c_str(), sender.pid, sender.pid_start_ticks, batch_seq,
                                             realtime_ns, monotonic_ns, &messages_, sender.nccl_version,
                                             sender.pid_namespace, acknowledge);
  wire::FinishBatchBuffer(builder_, batch);
  finished_ = true;
  return {builder_.GetBufferPointer(), builder_.GetSize()};
}

}  // namespace ccld::probe
