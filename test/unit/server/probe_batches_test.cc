// What the probe's encoder sends is what the service reads: each batch by itself, whatever came before it; and what is
// no such batch is refused by name.
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <variant>

#include "decision/ingest/ingest.h"
#include "decision/ingest/limits.h"
#include "probe/transport/encoder.h"
#include "schemas/wire/call_groups.h"
#include "schemas/wire/packed_links.h"
#include "schemas/wire/packed_structs.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision::ingest {
namespace {

using namespace ccld::test;

constexpr int64_t realtime_ns = 1'700'000'000'000'000'000;

probe::Sender sender() {
  return {"job-a", "node0", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", 4242, 4026532345, 777, 22907};
}

Bytes finish(probe::BatchEncoder& encoder, uint64_t batch_seq = 1) {
  const auto bytes = encoder.finish(sender(), batch_seq, realtime_ns, 1'000'000'000 * batch_seq, true);
  return {bytes.data, bytes.data + bytes.size};
}

probe::RoundsMessage rounds(uint64_t comm_uid, uint64_t first_op, size_t count) {
  probe::RoundsMessage m;
  m.comm_uid = comm_uid;
  m.rank = 3;
  for (uint64_t op = first_op; op < first_op + count; ++op) {
    probe::FinishedRound r;
    r.op_seq = op;
    r.signature = wire_signature(op % 2 == 0 ? 1024 : 2048);
    r.enter_monotonic_ns = 1'000'000 * op + op * op % 977;
    r.launch_monotonic_ns = r.enter_monotonic_ns + 5000;
    r.begin_device_ns = 7'000'000'000 + 1'000'000 * op + op * op % 1013;
    r.end_device_ns = r.begin_device_ns + 600'000;
    r.send_steps = r.recv_steps = 64 * (1 + op % 2);
    r.flags = 1, r.signals = 7;
    m.rounds.push_back(r);
  }
  return m;
}

template <class Payload>
const Payload& payload(const Batch& batch, size_t number = 0) {
  for (const auto& p : batch.payloads)
    if (const auto* found = std::get_if<Payload>(&p); found != nullptr && number-- == 0) return *found;
  throw std::runtime_error("the batch has no such payload");
}

// A message of two communicators' rounds, changed.
std::string refused(
    const std::function<void(wire::CallGroups&)>& change, bool p2p = false,
    const std::function<void(Bytes&, Bytes&)>& spoil = [](Bytes&, Bytes&) {}) {
  wire::CallGroups g;
  Bytes links = wire::pack(std::vector<wire::LinkRow>{{1, 2, 3, 4, 5, 1, 0, 64, 8, 700, 2, 1, 3}});
  const size_t words = p2p ? wire::words_of<wire::P2pKind> : wire::words_of<wire::OpSignature>;
  for (uint64_t comm_uid : {7, 8}) g.groups.push_back({comm_uid, 0, 2, 1, 0, 0});
  g.groups[1].link_rows = 1, g.groups[1].link_bytes = static_cast<uint32_t>(links.size());
  g.kind_words.resize(2 * words);
  g.rows.resize(4);
  for (size_t i = 0; i < g.rows.size(); ++i) g.rows[i].number = 1 + i % 2;
  change(g);
  Bytes calls = wire::pack(g, words, p2p ? wire::Numbering::of_kind : wire::Numbering::of_all);
  spoil(calls, links);
  WireBatch b;
  const auto calls_at = b.fbb.CreateVector(calls), links_at = b.fbb.CreateVector(links);
  if (p2p)
    b.add(wire::Payload::P2pGroups, wire::CreateP2pGroups(b.fbb, calls_at, links_at));
  else
    b.add(wire::Payload::RoundGroups, wire::CreateRoundGroups(b.fbb, calls_at, links_at));
  WireProcess process;
  process.schema_version = 4;
  const auto batch = decode_batch(b.finish(process));
  return batch.ok() ? "" : std::string(batch.status().message());
}

}  // namespace

TEST_CASE("The service reads of a probe's batch what the probe said: sender, rounds, calls of Send and Recv") {
  probe::BatchEncoder encoder;
  encoder.add(rounds(0xfedcba9876543210, 10, 30));
  probe::RoundsMessage with_links = rounds(2, 5, 3);
  with_links.links.emplace_back(5, 1, 2, 3, 4, 6, 0, 128, uint16_t{1}, uint8_t{1}, uint8_t{0});
  with_links.link_proxy_away_us = {700};
  with_links.link_first_step = {64};
  encoder.add(with_links);
  probe::P2pRoundsMessage p2p;
  p2p.comm_uid = 2;
  p2p.rank = 3;
  p2p.rounds.push_back({4, 1, 1, 0, 9, 11, 4096, 21, 22, 23, 24, 25, 26});
  encoder.add(p2p);
  const auto batch = decode_batch(finish(encoder));
  REQUIRE(batch.ok());
  CHECK(batch->job == "job-a");
  CHECK((batch->process.host == "node0" && batch->process.boot_id == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"));
  CHECK((batch->process.pid == 4242 && batch->process.pid_start_ticks == 777 && batch->acknowledge));
  const auto& first = payload<Rounds>(*batch, 0);
  const auto& second = payload<Rounds>(*batch, 1);
  CHECK((first.comm == CommUid(0xfedcba9876543210) && first.rank == Rank(3)));
  REQUIRE((first.rounds.size() == 30 && second.rounds.size() == 3));
  for (size_t i = 0; i < first.rounds.size(); ++i) {
    const probe::FinishedRound sent = rounds(1, 10, 30).rounds[i];
    const Round& r = first.rounds[i];
    CHECK((r.op == OpSeq(sent.op_seq) && r.signature.count == sent.signature.count()));
    CHECK((r.enter_monotonic_ns == sent.enter_monotonic_ns && r.launch_monotonic_ns == sent.launch_monotonic_ns));
    CHECK((r.begin_device_ns == sent.begin_device_ns && r.end_device_ns == sent.end_device_ns));
    CHECK((r.send_steps == sent.send_steps && r.flags == 1 && r.signals == 7));
  }
  CHECK(first.links.empty());
  REQUIRE(second.links.size() == 1);
  CHECK((second.links[0].done_mean_realtime_ns == 4 && second.links[0].first_step == 64 &&
         second.links[0].proxy_away_us == 700));
  const auto& calls = payload<P2pRounds>(*batch);
  REQUIRE(calls.rounds.size() == 1);
  CHECK((calls.rounds[0].peer == Rank(4) && calls.rounds[0].bytes == 4096 && calls.rounds[0].plan == 9));
  CHECK((calls.rounds[0].pair_seq == 11 && calls.rounds[0].end_device_ns == 24 && calls.rounds[0].recv_steps == 26));
}

TEST_CASE("The service reads of a probe's heartbeat what the probe said") {
  probe::BatchEncoder encoder;
  probe::InFlightMessage in_flight;
  in_flight.comm_uid = 2;
  in_flight.rank = 3;
  probe::OperationInFlight operation;
  operation.op_seq = 5;
  operation.signature = wire_signature();
  for (uint16_t c = 0; c < 4; ++c) operation.channels.emplace_back(9, c, uint8_t{1}, uint8_t{0}, 8, 7, 6, c);
  in_flight.operations.push_back(operation);
  in_flight.p2p.emplace_back(61, 62, 63, 64, 65, 66, 67, 68, uint8_t{1}, uint8_t{1}, uint8_t{0}, uint8_t{4}, uint8_t{7},
                             uint8_t{0}, uint16_t{0});
  encoder.add(in_flight);
  probe::HealthMessage health;
  health.siblings = {{99, 98, 'T', 1234, {{11, 7, 106, 105, 104}}}, {100, 98, 'S', 1, {}}, {101, 99, 'R', 2, {}}};
  encoder.add(health);
  probe::MetricsMessage metrics;
  metrics.metrics = {{abi::MetricId::agent_samples, "", 5}, {abi::MetricId::port_state, "mlx5_0:1", -4}};
  encoder.add(metrics);
  probe::NetQueuesMessage net;
  for (int q = 0; q < 3; ++q) net.queues.emplace_back(q, 2, 3, 4, 5, 6, 7, q % 2, 9, 10, 11, 12, 0);
  net.device_names = {"mlx5_0", "mlx5_1"};
  encoder.add(net);
  const auto batch = decode_batch(finish(encoder));
  REQUIRE(batch.ok());
  const auto& seen = payload<InFlight>(*batch);
  REQUIRE((seen.operations.size() == 1 && seen.operations[0].channels.size() == 4 && seen.p2p.size() == 1));
  CHECK((seen.operations[0].channels[3].channel == 3 && seen.operations[0].channels[3].recv_steps == 3));
  CHECK((seen.p2p[0].pair_seq == 62 && seen.p2p[0].peer == Rank(64) && seen.p2p[0].signals == 7));
  const auto& siblings = payload<AgentHealth>(*batch).siblings;
  REQUIRE(siblings.size() == 3);
  CHECK((siblings[0].state == 'T' && siblings[0].last_operations.size() == 1));
  CHECK((siblings[2].pid == 101 && siblings[2].pid_start_ticks == 99 && siblings[2].state == 'R' &&
         siblings[2].state_age_ms == 2));
  const auto& values = payload<Metrics>(*batch).metrics;
  REQUIRE(values.size() == 2);
  CHECK((values[0].instance.empty() && values[1].instance == "mlx5_0:1" && values[1].value == -4));
  const auto& queues = payload<NetQueues>(*batch).queues;
  REQUIRE(queues.size() == 3);
  CHECK((queues[1].device_name == "mlx5_1" && queues[2].queue == 2 && queues[2].device_name == "mlx5_0"));
}

TEST_CASE("A batch is read without the ones before it, which may be lost or come later") {
  probe::BatchEncoder encoder;
  std::vector<Bytes> batches;
  for (uint64_t seq = 1; seq <= 40; ++seq) {
    encoder.add(rounds(1, 100 * seq, 20));
    encoder.add(rounds(2, 50 * seq, 3));
    batches.push_back(finish(encoder, seq));
  }
  std::vector<size_t> order(batches.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(7);
  std::shuffle(order.begin() + 1, order.end(), random);  // the first one starts the count
  order.resize(25);
  Ingest ingest;
  for (size_t i : order) {
    const auto batch = ingest.accept(absl::MakeConstSpan(batches[i]), 0, realtime_ns);
    REQUIRE(batch.has_value());
    CHECK(batch->batch_seq == i + 1);
    const auto& r = payload<Rounds>(*batch);
    REQUIRE(r.rounds.size() == 20);
    const probe::FinishedRound sent = rounds(1, 100 * (i + 1), 20).rounds[19];
    CHECK((r.rounds[19].op == OpSeq(sent.op_seq) && r.rounds[19].end_device_ns == sent.end_device_ns));
  }
  CHECK(ingest.counters().batches == order.size());
  CHECK(ingest.counters().rejected_total() == 0);
}

TEST_CASE("What is wrong with calls of several communicators is named") {
  CHECK(refused([](wire::CallGroups&) {}).empty());
  CHECK(refused([](wire::CallGroups& g) { g.groups[1].comm_uid = 0; }) == "RoundGroups.comm_uid is 0");
  CHECK(refused([](wire::CallGroups& g) { g.groups[0].rank = -1; }).find("RoundGroups.rank is -1") == 0);
  CHECK(refused([](wire::CallGroups& g) { g.rows[1].number = 0; }).find("Rounds.op_seq") == 0);
  CHECK(refused([](wire::CallGroups& g) { g.rows[2].number = 9; }) == "Rounds.op_seq is not in order");
  CHECK(refused([](wire::CallGroups& g) { g.rows[3].end_device_ns = UINT64_MAX; }).find("Rounds.end_device_ns") == 0);
  CHECK(refused([](wire::CallGroups& g) { g.kind_words[2] = 0x80000000; }).find("OpSignature.root") == 0);
  CHECK(refused([](wire::CallGroups& g) { ++g.groups[1].link_bytes; }) == "RoundGroups.links are too short");
  CHECK(refused([](wire::CallGroups& g) { --g.groups[1].link_bytes; }) == "RoundGroups.links are not 1 rows");
  CHECK(refused([](wire::CallGroups& g) {
          g.groups[1].link_rows = UINT32_MAX;
        }).find("RoundGroups.links has 4294967295 rows") == 0);
  CHECK(refused([](wire::CallGroups& g) { g.kind_words[2] = 0xffffffff; }, true).find("P2pRounds.peer") == 0);
  CHECK(refused([](wire::CallGroups&) {}, false, [](Bytes& calls, Bytes&) { calls.pop_back(); }) ==
        "RoundGroups.calls are damaged");
  CHECK(refused([](wire::CallGroups&) {}, true, [](Bytes& calls, Bytes&) { calls.clear(); }) ==
        "P2pGroups.calls are damaged");
}

TEST_CASE("Rows, kinds and groups that take no bytes are bounded, in one message and in all of a batch") {
  const auto batch_of = [](size_t messages, size_t rows) {
    wire::CallGroups g;
    g.groups = {{7, 0, static_cast<uint32_t>(rows), 1, 0, 0}};
    g.kind_words.resize(wire::words_of<wire::OpSignature>);
    g.rows.resize(rows);
    for (size_t i = 0; i < rows; ++i) g.rows[i].number = i + 1;
    WireBatch b;
    while (messages-- > 0) {
      const auto calls = b.fbb.CreateVector(wire::pack(g, wire::words_of<wire::OpSignature>, wire::Numbering::of_all));
      b.add(wire::Payload::RoundGroups, wire::CreateRoundGroups(b.fbb, calls));
    }
    WireProcess process;
    process.schema_version = 4;
    return b.finish(process);
  };
  CHECK(decode_batch(batch_of(4, rounds_per_message_max / 4 - 2)).ok());
  for (const auto& [messages, rows] :
       {std::pair<size_t, size_t>{1, rounds_per_message_max}, {5, rounds_per_message_max / 4 - 2}}) {
    const auto batch = decode_batch(batch_of(messages, rows));
    REQUIRE_FALSE(batch.ok());
    CHECK(std::string(batch.status().message()) ==
          "RoundGroups.calls have more than 65536 rows, kinds and groups in all");
  }
}

TEST_CASE("What is wrong with a heartbeat of packed states is named") {
  const auto refused = [](const std::function<void(WireBatch&)>& add) {
    WireBatch b;
    add(b);
    const auto batch = decode_batch(b.finish());
    return batch.ok() ? "" : std::string(batch.status().message());
  };
  const auto queues = [](uint32_t rows, const std::string& names) {
    return [rows, names](WireBatch& b) {
      const auto packed =
          b.fbb.CreateVector(wire::pack(std::vector<wire::NetProgress>(2, {1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 0})));
      b.add(wire::Payload::NetQueues, wire::CreateNetQueues(b.fbb, 0, 0, rows, packed, b.fbb.CreateString(names)));
    };
  };
  using namespace std::string_literals;
  CHECK(refused(queues(2, "mlx5_0\0mlx5_1\0"s)).empty());
  CHECK(refused(queues(5, "mlx5_0\0"s)) == "NetQueues.packed are not 5 rows");
  CHECK(refused(queues(UINT32_MAX, "mlx5_0\0"s)).find("NetQueues.packed has 4294967295 rows, more than") == 0);
  CHECK(refused(queues(2, "mlx5_0\0mlx5"s)) == "NetQueues.names does not end with a zero byte");
  CHECK(refused(queues(2, std::string(256, 'x') + "\0"s)) == "NetQueues.names has 256 bytes, more than 255");
  CHECK(refused(queues(2, std::string(net_devices_max + 1, '\0'))) == "NetQueues.names has more than 4096 elements");
  CHECK(refused([](WireBatch& b) {
          const auto packed = b.fbb.CreateVector(wire::pack(std::vector<wire::SiblingState>(2, {98, 99, 1, 'S'})));
          b.add(wire::Payload::AgentHealth, wire::CreateAgentHealth(b.fbb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, packed));
        }) == "AgentHealth.packed_siblings are not 5 rows");
}

TEST_CASE("A probe's batch with any byte damaged is decoded or refused, never worse") {
  probe::BatchEncoder encoder;
  encoder.add(rounds(1, 10, 20));
  encoder.add(rounds(2, 10, 3));
  const Bytes whole = finish(encoder);
  std::mt19937 random(4);
  for (int run = 0; run < 20'000; ++run) {
    Bytes damaged = whole;
    damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
    const auto batch = decode_batch(damaged);
    if (!batch.ok()) CHECK_FALSE(batch.status().message().empty());
  }
}

}  // namespace ccld::decision::ingest
