// Telemetry as a probe would send it, for tests of the service: built with FlatBuffers, sized by the caller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "schemas/abi/frame.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::test {

using Bytes = std::vector<uint8_t>;

struct WireProcess {
  std::string job = "demo";
  std::string host = "node-a";
  std::string boot_id = "boot-1";
  uint32_t pid = 4711;
  uint32_t pid_namespace = 4026532345;
  uint64_t pid_start_ticks = 99;
  uint64_t batch_seq = 1;
  uint16_t schema_version = 2;
  int64_t sent_realtime_ns = 1'700'000'000'000'000'000;
  bool acknowledge = false;
};

// Collects messages, then closes them into one batch.
class WireBatch {
 public:
  flatbuffers::FlatBufferBuilder fbb;

  template <class Table>
  void add(wire::Payload type, flatbuffers::Offset<Table> payload) {
    messages_.push_back(wire::CreateMessage(fbb, type, payload.Union()));
  }

  Bytes finish(const WireProcess& p = {}) {
    const auto messages = fbb.CreateVector(messages_);
    const auto job = fbb.CreateString(p.job), host = fbb.CreateString(p.host), boot_id = fbb.CreateString(p.boot_id);
    wire::FinishBatchBuffer(fbb, wire::CreateBatch(fbb, p.schema_version, job, host, boot_id, p.pid, p.pid_start_ticks, p.batch_seq,
                                                   p.sent_realtime_ns, 123456789, messages, 22907, p.pid_namespace, p.acknowledge));
    return {fbb.GetBufferPointer(), fbb.GetBufferPointer() + fbb.GetSize()};
  }

 private:
  std::vector<flatbuffers::Offset<wire::Message>> messages_;
};

inline wire::OpSignature wire_signature(uint64_t count = 1024) {
  return wire::OpSignature(count, -1, 5, 7, 0, 1, 2, 8, 2);  // AllReduce float32 sum, Ring, Simple, 2 channels
}

struct WireCommUp {
  uint64_t comm_uid = 0xabc;
  int32_t rank = 0, rank_count = 2;
  int32_t node = 0, node_count = 1, local_rank = 0, cuda_device = 0;
  int32_t ring_next = 1;
  std::string name = "tp0", host = "node-a";
  uint64_t parent_uid = 0xdad;
  uint32_t hidden = abi::hidden_gin;
};

inline void add_comm_up(WireBatch& b, const WireCommUp& c = {}) {
  auto& fbb = b.fbb;
  const auto name = fbb.CreateString(c.name), bus = fbb.CreateString("0000:10:00.0"), host = fbb.CreateString(c.host);
  std::vector<flatbuffers::Offset<wire::ChannelTopology>> channels;
  const std::vector<int32_t> down = {1, -1, -1};
  for (uint16_t channel = 0; channel < 2; ++channel) {
    channels.push_back(wire::CreateChannelTopology(fbb, channel, 1, c.ring_next, -1, fbb.CreateVector(down), 0));
  }
  const std::vector<flatbuffers::Offset<wire::NetConnection>> connections = {
      wire::CreateNetConnection(fbb, 1, 1, 1, 0, fbb.CreateString("mlx5_0"))};
  b.add(wire::Payload::CommUp,
        wire::CreateCommUp(fbb, c.comm_uid, 77, 1, name, c.rank, c.rank_count, c.node, c.node_count, c.local_rank, c.cuda_device, bus,
                           host, fbb.CreateVector(channels), fbb.CreateVector(connections), 7, c.parent_uid, c.hidden));
}

struct WireRounds {
  uint64_t comm_uid = 0xabc;
  int32_t rank = 0;
  std::vector<uint64_t> op_seq = {1, 2};
  std::vector<wire::OpSignature> signatures = {wire_signature()};
  std::vector<uint16_t> signature_index = {0, 0};
  std::vector<uint64_t> enter = {100, 200}, launch = {110, 210}, begin = {1000, 3000}, end = {2000, 5000};
  std::vector<uint32_t> send = {8, 8}, recv = {8, 8}, send_changes = {2, 3}, recv_changes = {4, 5}, samples = {6, 7};
  std::vector<uint8_t> flags = {1, 1};
  std::vector<wire::LinkStages> links;
  std::vector<uint32_t> away, first_step;  // empty: absent
  std::vector<uint32_t> replay;   // likewise
  std::vector<uint8_t> signals;  // likewise
};

inline void add_rounds(WireBatch& b, const WireRounds& r = {}) {
  auto& fbb = b.fbb;
  b.add(wire::Payload::Rounds,
        wire::CreateRounds(fbb, r.comm_uid, r.rank, fbb.CreateVector(r.op_seq), fbb.CreateVectorOfStructs(r.signatures),
                           fbb.CreateVector(r.signature_index), fbb.CreateVector(r.enter), fbb.CreateVector(r.launch),
                           fbb.CreateVector(r.begin), fbb.CreateVector(r.end), fbb.CreateVector(r.send), fbb.CreateVector(r.recv),
                           fbb.CreateVector(r.send_changes), fbb.CreateVector(r.recv_changes), fbb.CreateVector(r.samples),
                           fbb.CreateVector(r.flags), fbb.CreateVectorOfStructs(r.links),
                           r.replay.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint32_t>>() : fbb.CreateVector(r.replay),
                           r.signals.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint8_t>>() : fbb.CreateVector(r.signals),
                           r.away.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint32_t>>() : fbb.CreateVector(r.away),
                           r.first_step.empty() ? flatbuffers::Offset<flatbuffers::Vector<uint32_t>>() : fbb.CreateVector(r.first_step)));
}

struct WireInFlight {
  uint64_t comm_uid = 0xabc;
  int32_t rank = 0;
  uint64_t entered = 3, launched = 3, completed = 2;
  uint32_t moved_age_ms = 250;
  uint64_t sample_monotonic_ns = 5000;
  std::vector<wire::LaneState> lanes = {wire::LaneState(3, 10, 8, 11, 10, 1, 240, 1, 250, 1, 0, 2, 3, 1, 1, 0)};
  std::vector<wire::ProxyState> proxies = {wire::ProxyState(1, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 1, 1, 0)};
  wire::OpSignature signature = wire_signature();
  size_t operations = 1;
  uint32_t state = 2;
  std::vector<wire::P2pInFlight> p2p = {wire::P2pInFlight(9, 4, 4096, 1, 11, 270, 265, 0, 1, 1, 1, 8, 7, 0, 0)};
  bool stopped = false;
};

inline void add_in_flight(WireBatch& b, const WireInFlight& f = {}) {
  auto& fbb = b.fbb;
  std::vector<flatbuffers::Offset<wire::InFlightOp>> operations;
  for (size_t i = 0; i < f.operations; ++i) {
    const std::vector<wire::ChannelState> channels = {wire::ChannelState(3, 1, 1, 0, 240, 0xffffffffu, 4, 5)};
    operations.push_back(wire::CreateInFlightOp(fbb, f.completed + 1 + i, &f.signature, 3, 260, 255, true, true, fbb.CreateVectorOfStructs(channels), 0, 15));
  }
  b.add(wire::Payload::InFlight,
        wire::CreateInFlight(fbb, f.comm_uid, f.rank, f.sample_monotonic_ns, f.entered, f.launched, f.completed, f.moved_age_ms, 42,
                             fbb.CreateVector(operations), static_cast<uint32_t>(f.operations), fbb.CreateVectorOfStructs(f.lanes),
                             fbb.CreateVectorOfStructs(f.proxies), 12, true, f.state, fbb.CreateVectorOfStructs(f.p2p),
                             static_cast<uint32_t>(f.p2p.size()), 10, 9, 3, 0, f.stopped));
}

inline void add_comm_down(WireBatch& b, int32_t rank = 0, uint32_t state = 4) {
  b.add(wire::Payload::CommDown, wire::CreateCommDown(b.fbb, 0xabc, rank, state, 9));
}

struct WireLastOperations {
  int32_t rank = 3;
  uint64_t entered = 12, launched = 11, begun = 10;
};

inline void add_agent_health(WireBatch& b, const WireLastOperations& last = {}) {
  const auto of_sibling = b.fbb.CreateVector(std::vector<flatbuffers::Offset<wire::LastOperations>>{
      wire::CreateLastOperations(b.fbb, 77, last.rank, last.entered, last.launched, last.begun)});
  const std::vector<flatbuffers::Offset<wire::Sibling>> siblings = {
      wire::CreateSibling(b.fbb, 4712, 100, 'T', 1500, of_sibling), wire::CreateSibling(b.fbb, 4713, 101, 0x1b, 1)};
  b.add(wire::Payload::AgentHealth, wire::CreateAgentHealth(b.fbb, 1, 2, 3, 4, 5, 6, 7, 8, 9, b.fbb.CreateVector(siblings)));
}

struct WireCommInit {
  uint64_t comm_hash = 77;
  int32_t rank = 0, rank_count = 4;
  uint8_t stage = 2;
  int32_t result = 0, cuda_device = 0;
};

inline void add_comm_init(WireBatch& b, const WireCommInit& c = {}) {
  b.add(wire::Payload::CommInit,
        wire::CreateCommInit(b.fbb, c.comm_hash, c.rank, c.rank_count, c.stage, 1500, 2500, c.result, c.cuda_device, 3));
}

struct WireP2pRounds {
  uint64_t comm_uid = 0xabc;
  int32_t rank = 0;
  std::vector<int32_t> peer = {1, 1};
  std::vector<uint8_t> direction = {1, 0};
  std::vector<uint64_t> pair_seq = {1, 1}, bytes = {4096, 64}, enter = {100, 101}, launch = {110, 111}, begin = {1000, 1000},
                        end = {2000, 2000};
  std::vector<uint8_t> flags = {16, 16};
  std::vector<uint32_t> replay = {0, 0}, plan = {5, 5};
  std::vector<wire::LinkStages> links;      // empty: absent
  std::vector<uint32_t> away, first_step;  // likewise
};

inline void add_p2p_rounds(WireBatch& b, const WireP2pRounds& r = {}) {
  auto& fbb = b.fbb;
  b.add(wire::Payload::P2pRounds,
        wire::CreateP2pRounds(fbb, r.comm_uid, r.rank, fbb.CreateVector(r.peer), fbb.CreateVector(r.direction), fbb.CreateVector(r.pair_seq),
                              fbb.CreateVector(r.bytes), fbb.CreateVector(r.enter), fbb.CreateVector(r.launch), fbb.CreateVector(r.begin),
                              fbb.CreateVector(r.end), fbb.CreateVector(r.flags), fbb.CreateVector(r.replay), fbb.CreateVector(r.plan), 0, 0,
                              r.links.empty() ? 0 : fbb.CreateVectorOfStructs(r.links), r.away.empty() ? 0 : fbb.CreateVector(r.away),
                              r.first_step.empty() ? 0 : fbb.CreateVector(r.first_step)));
}

struct WireMetric {
  uint16_t id;
  std::string instance;
  int64_t value;
};

inline void add_metrics(WireBatch& b, const std::vector<WireMetric>& metrics = {{1, "", 42}, {207, "0000:10:00.0", 79}}) {
  std::vector<flatbuffers::Offset<wire::Metric>> values;
  for (const WireMetric& m : metrics) values.push_back(wire::CreateMetric(b.fbb, m.id, b.fbb.CreateString(m.instance), m.value));
  b.add(wire::Payload::Metrics, wire::CreateMetrics(b.fbb, b.fbb.CreateVector(values)));
}

inline void add_net_queues(WireBatch& b, int32_t device = 0, uint32_t kind = 0) {
  const std::vector<wire::NetProgress> queues = {wire::NetProgress(7, 3, 10, 7, 65536, 1, 2, device, 99, 1000, 5000, 0xffffffffu, kind)};
  const std::vector<flatbuffers::Offset<flatbuffers::String>> names = {b.fbb.CreateString("mlx5_0")};
  b.add(wire::Payload::NetQueues, wire::CreateNetQueues(b.fbb, b.fbb.CreateVectorOfStructs(queues), b.fbb.CreateVector(names)));
}

struct WireControlState {
  uint64_t sequence = 17;
  uint32_t refused_fields = 0;
  bool running = true;
  uint32_t sample_us = 1000, log = 0, budget_ppm = 3000, period_us = 2000;
};

inline void add_control_state(WireBatch& b, const WireControlState& c = {}) {
  b.add(wire::Payload::ControlState,
        wire::CreateControlState(b.fbb, c.sequence, c.refused_fields, c.running, c.sample_us, c.log, c.budget_ppm, c.period_us,
                                 b.fbb.CreateString("tcp://127.0.0.1:1")));
}

// One of everything.
constexpr size_t full_batch_payloads = 10;
inline Bytes full_batch(const WireProcess& p = {}) {
  WireBatch b;
  add_comm_up(b);
  WireRounds rounds;
  rounds.links = {wire::LinkStages(2, 11, 12, 13, 14, 1, 0, 8, 1, 1, 2)};
  rounds.away = {700};
  rounds.first_step = {4};
  add_rounds(b, rounds);
  add_in_flight(b);
  add_agent_health(b);
  add_comm_down(b);
  add_comm_init(b);
  add_p2p_rounds(b);
  add_metrics(b);
  add_net_queues(b);
  add_control_state(b);
  return b.finish(p);
}

}  // namespace ccld::test
