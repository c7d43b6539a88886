#include "probe/transport/encoder.h"

#include <algorithm>
#include <utility>

#include "schemas/wire/packed_metrics.h"
#include "schemas/wire/packed_structs.h"
#include "schemas/wire/uuid_text.h"

namespace ccld::probe {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

using PackedBytes = Offset<flatbuffers::Vector<uint8_t>>;

// Nothing is absent.
template <class Struct>
PackedBytes packed(FlatBufferBuilder& builder, const std::vector<Struct>& rows) {
  return rows.empty() ? 0 : builder.CreateVector(wire::pack(rows));
}

Offset<flatbuffers::String> joined(FlatBufferBuilder& builder, const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all.append(name.c_str(), name.size() + 1);
  return all.empty() ? 0 : builder.CreateString(all);
}

auto encode(FlatBufferBuilder& builder, const CommUpMessage& m) {
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
                                  m.mode, m.identity.parent_uid, m.hidden);
}

auto encode(FlatBufferBuilder& builder, const CommDownMessage& m) {
  return wire::CreateCommDown(builder, m.comm_uid, m.rank, m.state, m.last_entered_op_seq);
}

auto encode(FlatBufferBuilder& builder, const CommInitMessage& m) {
  return wire::CreateCommInit(builder, m.comm_hash, m.rank, m.rank_count, static_cast<uint8_t>(m.stage), m.stage_age_ms,
                              m.enter_age_ms, m.result, m.cuda_device, m.number);
}

auto encode(FlatBufferBuilder& builder, const MetricsMessage& m) {
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
  const auto names = joined(builder, instances);
  const auto values = builder.CreateVector(wire::pack(std::move(rows)));
  return wire::CreateMetrics(builder, 0, count, 0, values, names);
}

auto encode(FlatBufferBuilder& builder, const NetQueuesMessage& m) {
  const PackedBytes queues = packed(builder, m.queues);
  const auto names = joined(builder, m.device_names);
  return wire::CreateNetQueues(builder, 0, 0, static_cast<uint32_t>(m.queues.size()), queues, names);
}

auto encode(FlatBufferBuilder& builder, const ControlStateMessage& m) {
  const ControlInForce& s = m.state;
  return wire::CreateControlStateDirect(builder, s.applied_sequence, s.refused_fields, s.running, s.sample_us, s.log,
                                        s.budget_ppm, s.period_us, s.endpoint.c_str());
}

auto encode(FlatBufferBuilder& builder, const InFlightMessage& m) {
  std::vector<Offset<wire::InFlightOp>> operations;
  for (const OperationInFlight& o : m.operations) {
    const PackedBytes channels = packed(builder, o.channels);
    operations.push_back(wire::CreateInFlightOp(builder, o.op_seq, &o.signature, o.plan, o.enter_age_ms,
                                                o.launch_age_ms, o.launched, o.begun, 0, o.replay, o.signals,
                                                static_cast<uint32_t>(o.channels.size()), channels));
  }
  const auto operations_offset = operations.empty() ? 0 : builder.CreateVector(operations);
  const PackedBytes lanes = packed(builder, m.lanes), proxies = packed(builder, m.proxies),
                    p2p = packed(builder, m.p2p);
  return wire::CreateInFlight(builder, m.comm_uid, m.rank, m.sample_monotonic_ns, m.entered_op_seq, m.launched_op_seq,
                              m.completed_op_seq, m.moved_age_ms, m.movement, operations_offset, m.operations_total, 0,
                              0, m.proxy_tick_age_ms, m.late, m.state, 0, m.p2p_total, m.entered_p2p, m.launched_p2p,
                              m.kernel_plan, m.kernel_replay, m.stopped, static_cast<uint32_t>(m.lanes.size()), lanes,
                              static_cast<uint32_t>(m.proxies.size()), proxies, static_cast<uint32_t>(m.p2p.size()),
                              p2p, m.held);
}

auto encode(FlatBufferBuilder& builder, const HealthMessage& m) {
  std::vector<Offset<wire::Sibling>> siblings;
  std::vector<wire::SiblingState> states;
  for (const SiblingState& s : m.siblings) {
    if (s.last_operations.empty()) {
      states.emplace_back(s.pid_start_ticks, s.pid, s.state_age_ms, static_cast<uint8_t>(s.state));
      continue;
    }
    std::vector<Offset<wire::LastOperations>> last;
    for (const LastOperations& o : s.last_operations)
      last.push_back(
          wire::CreateLastOperations(builder, o.comm_uid, o.rank, o.entered_op_seq, o.launched_op_seq, o.begun_op_seq));
    siblings.push_back(wire::CreateSibling(builder, s.pid, s.pid_start_ticks, static_cast<uint8_t>(s.state),
                                           s.state_age_ms, builder.CreateVector(last)));
  }
  const auto siblings_offset = siblings.empty() ? 0 : builder.CreateVector(siblings);
  const PackedBytes states_offset = packed(builder, states);
  const Health& h = m.health;
  return wire::CreateAgentHealth(builder, h.samples, h.late_samples, h.lapped_rounds, h.dropped_batches,
                                 h.dropped_rounds, h.send_errors, h.sent_batches, h.sent_bytes, h.cpu_ns,
                                 siblings_offset, static_cast<uint32_t>(states.size()), states_offset);
}

}  // namespace

void BatchEncoder::begin() {
  if (!finished_) return;
  builder_.Clear();
  messages_.clear();
  finished_ = false;
}

template <class Table>
Offset<wire::Message> BatchEncoder::message(Offset<Table> table) {
  return wire::CreateMessage(builder_, wire::PayloadTraits<Table>::enum_value, table.Union());
}

void BatchEncoder::add(const Message& m) {
  begin();
  std::visit([this](const auto& payload) { take(payload); }, m);
}

// Whatever is said of a communicator, its announcement comes first.
void BatchEncoder::take(const CommUpMessage& m) { messages_.push_back(message(encode(builder_, m))); }

void BatchEncoder::take(const InFlightMessage& m) { behind_calls_.push_back(message(encode(builder_, m))); }

template <class Other>
void BatchEncoder::take(const Other& m) {
  pack_calls();
  messages_.push_back(message(encode(builder_, m)));
}

void BatchEncoder::pack_calls() {
  const auto pack = [this](CallBundle& calls, auto create) {
    if (calls.empty()) return;
    const CallBundle::Packed packed = calls.take();
    const PackedBytes calls_offset = builder_.CreateVector(packed.calls);
    const PackedBytes links_offset = packed.links.empty() ? 0 : builder_.CreateVector(packed.links);
    messages_.push_back(message(create(builder_, calls_offset, links_offset)));
  };
  pack(rounds_, wire::CreateRoundGroups);
  pack(p2p_, wire::CreateP2pGroups);
  messages_.insert(messages_.end(), behind_calls_.begin(), behind_calls_.end());
  behind_calls_.clear();
}

BatchEncoder::Bytes BatchEncoder::finish(const Sender& sender, uint64_t batch_seq, int64_t realtime_ns,
                                         uint64_t monotonic_ns, bool acknowledge) {
  begin();
  pack_calls();
  wire::UuidBits boot;
  const bool is_uuid = wire::uuid_of(sender.boot_id, boot);
  const wire::Uuid boot_uuid(boot.high, boot.low);
  const auto job = builder_.CreateString(sender.job), host = builder_.CreateString(sender.host);
  const auto boot_id = is_uuid ? 0 : builder_.CreateString(sender.boot_id);
  const auto batch =
      wire::CreateBatch(builder_, wire_schema_version, job, host, boot_id, sender.pid, sender.pid_start_ticks,
                        batch_seq, realtime_ns, monotonic_ns, builder_.CreateVector(messages_), sender.nccl_version,
                        sender.pid_namespace, acknowledge, is_uuid ? &boot_uuid : nullptr);
  wire::FinishBatchBuffer(builder_, batch);
  finished_ = true;
  return {builder_.GetBufferPointer(), builder_.GetSize()};
}

}  // namespace ccld::probe
