#include "probe/transport/encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "schemas/wire/packed_calls.h"
#include "schemas/wire/packed_links.h"
#include "schemas/wire/packed_metrics.h"
#include "schemas/wire/packed_structs.h"

namespace ccld::probe {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

struct PackedLinks {
  uint32_t rows = 0;
  Offset<flatbuffers::Vector<uint8_t>> bytes;  // none if there are no rows
};

PackedLinks encode_links(FlatBufferBuilder& builder, const LinkColumns& m) {
  if (m.links.empty()) return {};
  std::vector<wire::LinkRow> rows;
  for (size_t i = 0; i < m.links.size(); ++i) {
    const wire::LinkStages& l = m.links[i];
    wire::LinkRow r;
    r.op_seq = l.op_seq();
    r.gpu_mean_realtime_ns = l.gpu_mean_realtime_ns(), r.ready_mean_realtime_ns = l.ready_mean_realtime_ns();
    r.wire_mean_realtime_ns = l.wire_mean_realtime_ns(), r.done_mean_realtime_ns = l.done_mean_realtime_ns();
    r.peer = l.peer(), r.net_device = l.net_device();
    r.steps = l.steps();
    if (!m.link_first_step.empty()) r.first_step = m.link_first_step[i];
    if (!m.link_proxy_away_us.empty()) r.proxy_away_us = m.link_proxy_away_us[i];
    r.channel = l.channel(), r.direction = l.direction(), r.group = l.group();
    rows.push_back(r);
  }
  const auto count = static_cast<uint32_t>(rows.size());
  return {count, builder.CreateVector(wire::pack(std::move(rows)))};
}

// The kinds of rows, in the order in which they appear.
template <class Kind>
class Kinds {
 public:
  uint32_t number_of(const Kind& kind) {
    // Newest first: a training loop repeats the last few.
    const auto equal = [&kind](const Kind& k) { return std::memcmp(&k, &kind, sizeof k) == 0; };
    const auto found = std::find_if(kinds_.rbegin(), kinds_.rend(), equal);
    if (found != kinds_.rend()) return static_cast<uint32_t>(kinds_.rend() - found) - 1;
    kinds_.push_back(kind);
    return static_cast<uint32_t>(kinds_.size()) - 1;
  }
  const std::vector<Kind>& all() const { return kinds_; }

 private:
  std::vector<Kind> kinds_;
};

// What finished rounds and finished calls of Send and Recv have in common.
template <class Finished>
wire::CallRow row_of(const Finished& f) {
  wire::CallRow r;
  r.replay = f.replay;
  r.enter_monotonic_ns = f.enter_monotonic_ns, r.launch_monotonic_ns = f.launch_monotonic_ns;
  r.begin_device_ns = f.begin_device_ns, r.end_device_ns = f.end_device_ns;
  r.send_steps = f.send_steps, r.recv_steps = f.recv_steps;
  r.flags = f.flags;
  return r;
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
  return wire::CreateCommUpDirect(builder, m.identity.comm_uid, m.identity.comm_hash, m.comm_number,
                                  m.identity.comm_name.c_str(), m.rank, m.rank_count, m.identity.node,
                                  m.identity.node_count, m.identity.local_rank, m.cuda_device,
                                  m.identity.gpu_bus_id.c_str(), m.identity.host.c_str(), &channels, &connections,
                                  m.mode, m.identity.parent_uid, m.hidden)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const CommDownMessage& m) {
  return wire::CreateCommDown(builder, m.comm_uid, m.rank, m.state, m.last_entered_op_seq).Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const RoundsMessage& m) {
  Kinds<wire::OpSignature> signatures;
  std::vector<wire::CallRow> rows;
  for (const FinishedRound& f : m.rounds) {
    wire::CallRow& r = rows.emplace_back(row_of(f));
    r.number = f.op_seq;
    r.kind = signatures.number_of(f.signature);
    r.send_changes = f.send_changes, r.recv_changes = f.recv_changes;
    r.samples = f.samples;
    r.signals = f.signals;
  }
  const auto signatures_offset = builder.CreateVectorOfStructs(signatures.all());
  const auto calls =
      builder.CreateVector(wire::pack(std::move(rows), signatures.all().size(), wire::Numbering::of_all));
  const PackedLinks links = encode_links(builder, m);
  return wire::CreatePackedRounds(builder, m.comm_uid, m.rank, static_cast<uint32_t>(m.rounds.size()),
                                  signatures_offset, calls, links.rows, links.bytes)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const P2pRoundsMessage& m) {
  Kinds<wire::P2pKind> kinds;
  std::vector<wire::CallRow> rows;
  for (const FinishedP2p& f : m.rounds) {
    wire::CallRow& r = rows.emplace_back(row_of(f));
    r.number = f.pair_seq;
    r.kind = kinds.number_of(wire::P2pKind(f.bytes, f.peer, f.direction));
    r.plan = f.plan;
  }
  const auto kinds_offset = builder.CreateVectorOfStructs(kinds.all());
  const auto calls = builder.CreateVector(wire::pack(std::move(rows), kinds.all().size(), wire::Numbering::of_kind));
  const PackedLinks links = encode_links(builder, m);
  return wire::CreatePackedP2pRounds(builder, m.comm_uid, m.rank, static_cast<uint32_t>(m.rounds.size()), kinds_offset,
                                     calls, links.rows, links.bytes)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const CommInitMessage& m) {
  return wire::CreateCommInit(builder, m.comm_hash, m.rank, m.rank_count, static_cast<uint8_t>(m.stage), m.stage_age_ms,
                              m.enter_age_ms, m.result, m.cuda_device, m.number)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const MetricsMessage& m) {
  std::vector<std::string> instances;
  std::vector<wire::MetricRow> rows;
  for (const MetricValue& v : m.metrics) {
    // Newest first: the values of a GPU or a port follow one another.
    const auto found = std::find(instances.rbegin(), instances.rend(), v.instance);
    const auto index = found != instances.rend() ? static_cast<size_t>(instances.rend() - found) - 1 : instances.size();
    if (index == instances.size()) instances.push_back(v.instance);
    rows.push_back({static_cast<uint16_t>(v.id), static_cast<uint32_t>(index), v.value});
  }
  const auto count = static_cast<uint32_t>(rows.size());
  const auto names = builder.CreateVectorOfStrings(instances);
  const auto packed = builder.CreateVector(wire::pack(std::move(rows)));
  return wire::CreateMetrics(builder, 0, count, names, packed).Union();
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
  const Offset<flatbuffers::Vector<uint8_t>> lanes = m.lanes.empty() ? 0 : builder.CreateVector(wire::pack(m.lanes)),
                                             proxies =
                                                 m.proxies.empty() ? 0 : builder.CreateVector(wire::pack(m.proxies));
  const auto p2p = builder.CreateVectorOfStructs(m.p2p);
  return wire::CreateInFlight(builder, m.comm_uid, m.rank, m.sample_monotonic_ns, m.entered_op_seq, m.launched_op_seq,
                              m.completed_op_seq, m.moved_age_ms, m.movement, operations_offset, m.operations_total, 0,
                              0, m.proxy_tick_age_ms, m.late, m.state, p2p, m.p2p_total, m.entered_p2p, m.launched_p2p,
                              m.kernel_plan, m.kernel_replay, m.stopped, static_cast<uint32_t>(m.lanes.size()), lanes,
                              static_cast<uint32_t>(m.proxies.size()), proxies)
      .Union();
}

Offset<void> encode(FlatBufferBuilder& builder, const HealthMessage& m) {
  std::vector<Offset<wire::Sibling>> siblings;
  for (const SiblingState& s : m.siblings) {
    std::vector<Offset<wire::LastOperations>> last;
    for (const LastOperations& o : s.last_operations)
      last.push_back(
          wire::CreateLastOperations(builder, o.comm_uid, o.rank, o.entered_op_seq, o.launched_op_seq, o.begun_op_seq));
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
    wire::Payload operator()(const RoundsMessage&) const { return wire::Payload::PackedRounds; }
    wire::Payload operator()(const InFlightMessage&) const { return wire::Payload::InFlight; }
    wire::Payload operator()(const HealthMessage&) const { return wire::Payload::AgentHealth; }
    wire::Payload operator()(const CommInitMessage&) const { return wire::Payload::CommInit; }
    wire::Payload operator()(const P2pRoundsMessage&) const { return wire::Payload::PackedP2pRounds; }
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
  const auto batch =
      wire::CreateBatchDirect(builder_, wire_schema_version, sender.job.c_str(), sender.host.c_str(),
                              sender.boot_id.c_str(), sender.pid, sender.pid_start_ticks, batch_seq, realtime_ns,
                              monotonic_ns, &messages_, sender.nccl_version, sender.pid_namespace, acknowledge);
  wire::FinishBatchBuffer(builder_, batch);
  finished_ = true;
  return {builder_.GetBufferPointer(), builder_.GetSize()};
}

}  // namespace ccld::probe
