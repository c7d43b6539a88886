#include "decision/ingest/batch_decoder.h"

#include <catch2/catch.hpp>

#include "decision/ingest/limits.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision {

using namespace ingest;
using namespace test;

namespace {

absl::StatusOr<Batch> decode(const Bytes& bytes) { return decode_batch(absl::MakeConstSpan(bytes)); }

// The batch must be refused for a field, with a text that names it.
void require_refused(const Bytes& bytes, const std::string& field) {
  const auto batch = decode(bytes);
  REQUIRE_FALSE(batch.ok());
  CHECK(reject_reason(batch.status()) == RejectReason::field);
  CHECK(reject_key(batch.status()) == field);
  CHECK(std::string(batch.status().message()).find(field) == 0);
}

template <class Payload>
void require_rounds_refused(Payload change, const std::string& field) {
  WireRounds rounds;
  change(rounds);
  WireBatch b;
  add_rounds(b, rounds);
  require_refused(b.finish(), field);
}

}  // namespace

TEST_CASE("A batch with one of every payload is decoded field by field") {
  const auto batch = decode(full_batch());
  REQUIRE(batch.ok());
  CHECK(batch->job == "demo");
  CHECK(batch->process == ProcessId{"node-a", "boot-1", 4711, 4026532345, 99});
  CHECK(batch->batch_seq == 1);
  CHECK(batch->nccl_version == 22907);
  REQUIRE(batch->payloads.size() == full_batch_payloads);

  const auto& up = std::get<CommUp>(batch->payloads[0]);
  CHECK(up.comm == CommUid(0xabc));
  CHECK(up.comm_hash == 77);
  CHECK(up.name == "tp0");
  CHECK(up.rank == Rank(0));
  CHECK(up.rank_count == 2);
  CHECK(up.gpu_bus_id == "0000:10:00.0");
  REQUIRE(up.channels.size() == 2);
  CHECK(up.channels[1].channel == 1);
  CHECK(up.channels[1].ring_prev == 1);
  CHECK(up.channels[1].tree_up == -1);
  CHECK(up.channels[1].tree_down == std::vector<int>{1});  // -1 fills up the wire only
  REQUIRE(up.connections.size() == 1);
  CHECK(up.connections[0].direction == abi::Direction::send);
  CHECK(up.connections[0].net_name == "mlx5_0");
  CHECK(up.mode == 7);
  CHECK(up.parent == CommUid(0xdad));
  CHECK(up.hidden == abi::hidden_gin);

  const auto& rounds = std::get<Rounds>(batch->payloads[1]);
  REQUIRE(rounds.rounds.size() == 2);
  const Round& round = rounds.rounds[1];
  CHECK(round.op == OpSeq(2));
  CHECK(round.signature.count == 1024);
  CHECK(round.signature.function == abi::Function::all_reduce);
  CHECK(round.signature.datatype == abi::Datatype::float32);
  CHECK(round.signature.algorithm == abi::Algorithm::ring);
  CHECK(round.signature.protocol == abi::Protocol::simple);
  CHECK(round.signature.channels == 2);
  CHECK(round.enter_monotonic_ns == 200);
  CHECK(round.launch_monotonic_ns == 210);
  CHECK(round.duration_ns() == 2000);
  CHECK(round.send_changes == 3);
  CHECK(round.recv_changes == 5);
  CHECK(round.samples == 7);
  CHECK(round.flags == round_counts_valid);
  CHECK(round.replay == 0);
  CHECK(round.signals == signals_default);
  REQUIRE(rounds.links.size() == 1);
  CHECK(rounds.links[0].wire_mean_realtime_ns == 13);
  CHECK(rounds.links[0].proxy_away_us == 700);
  CHECK(rounds.links[0].first_step == 4);
  CHECK(rounds.links[0].group == 2);

  const auto& flight = std::get<InFlight>(batch->payloads[2]);
  CHECK(flight.entered == OpSeq(3));
  CHECK(flight.completed == OpSeq(2));
  CHECK(flight.late);
  CHECK(flight.proxy_tick_age_ms == 12);
  REQUIRE(flight.operations.size() == 1);
  CHECK(flight.operations[0].op == OpSeq(3));
  CHECK(flight.operations[0].begun);
  CHECK(flight.operations[0].replay == 0);
  CHECK(flight.operations[0].signals == 15);
  REQUIRE(flight.operations[0].channels.size() == 1);
  CHECK(flight.operations[0].channels[0].polling_age_ms == age_never);
  REQUIRE(flight.lanes.size() == 1);
  CHECK(flight.lanes[0].want_step == 11);
  CHECK(flight.lanes[0].wait == abi::WaitKind::data);
  CHECK(flight.lanes[0].wait_certain);
  REQUIRE(flight.proxies.size() == 1);
  CHECK(flight.proxies[0].transmitted == 4);

  const auto& health = std::get<AgentHealth>(batch->payloads[3]);
  CHECK(health.cpu_ns == 9);
  REQUIRE(health.siblings.size() == 2);
  CHECK(health.siblings[0].state == 'T');
  CHECK(health.siblings[1].state == '?');  // not a letter
  REQUIRE(health.siblings[0].last_operations.size() == 1);
  const LastOperations& last = health.siblings[0].last_operations[0];
  CHECK((last.comm == CommUid(77) && last.rank == Rank(3)));
  CHECK((last.entered == OpSeq(12) && last.launched == OpSeq(11) && last.begun == OpSeq(10)));
  CHECK(health.siblings[1].last_operations.empty());

  const auto& down = std::get<CommDown>(batch->payloads[4]);
  CHECK(down.state == abi::CommState::destroyed);
  CHECK(down.last_entered == OpSeq(9));

  REQUIRE(flight.p2p.size() == 1);
  CHECK(flight.p2p[0].call == 9);
  CHECK(flight.p2p[0].pair_seq == 4);
  CHECK(flight.p2p[0].peer == Rank(1));
  CHECK(flight.p2p[0].direction == abi::Direction::send);
  CHECK(flight.p2p[0].launched);
  CHECK(flight.p2p_total == 1);
  CHECK(flight.entered_p2p == 10);
  CHECK(flight.launched_p2p == 9);
  CHECK(flight.kernel_plan == 3);
  CHECK_FALSE(flight.stopped);

  const auto& init = std::get<CommInit>(batch->payloads[5]);
  CHECK(init.comm_hash == 77);
  CHECK(init.rank_count == 4);
  CHECK(init.stage == abi::InitStage::bootstrapped);
  CHECK(init.stage_age_ms == 1500);
  CHECK(init.number == 3);

  const auto& p2p = std::get<P2pRounds>(batch->payloads[6]);
  REQUIRE(p2p.rounds.size() == 2);
  CHECK(p2p.rounds[1].direction == abi::Direction::recv);
  CHECK(p2p.rounds[1].bytes == 64);
  CHECK(p2p.rounds[1].plan == 5);
  CHECK(p2p.rounds[1].flags == round_shared_kernel);

  const auto& metrics = std::get<Metrics>(batch->payloads[7]);
  REQUIRE(metrics.metrics.size() == 2);
  CHECK(metrics.metrics[1].id == abi::MetricId::gpu_xid_last);
  CHECK(metrics.metrics[1].instance == "0000:10:00.0");
  CHECK(metrics.metrics[1].value == 79);

  const auto& net = std::get<NetQueues>(batch->payloads[8]);
  REQUIRE(net.queues.size() == 1);
  CHECK(net.queues[0].device_name == "mlx5_0");
  CHECK(net.queues[0].in_flight == 3);
  CHECK(net.queues[0].number == 99);
  CHECK(net.queues[0].complete_age_ms == age_never);

  const auto& control = std::get<ControlState>(batch->payloads[9]);
  CHECK(control.sequence == 17);
  CHECK(control.running);
  CHECK(control.period_us == 2000);
  CHECK(control.endpoint == "tcp://127.0.0.1:1");
}

TEST_CASE("Rounds say which replay they are and what was measured of them") {
  WireRounds rounds;
  rounds.op_seq = {7, 5};  // graphs are replayed in any order
  rounds.replay = {3, 4};
  rounds.signals = {abi::signal_times, abi::signal_steps};
  WireBatch b;
  add_rounds(b, rounds);
  const auto batch = decode(b.finish());
  REQUIRE(batch.ok());
  const auto& decoded = std::get<Rounds>(batch->payloads[0]).rounds;
  CHECK(decoded[0].key() == RoundKey{OpSeq(7), 3});
  CHECK(decoded[0].has_device_times());
  CHECK_FALSE(decoded[0].has_counts());
  CHECK_FALSE(decoded[1].has_device_times());
  CHECK(decoded[1].has_counts());
  require_rounds_refused([](WireRounds& r) { r.replay = {1}; }, "Rounds.replay");
  require_rounds_refused([](WireRounds& r) { r.signals = {1, 1, 1}; }, "Rounds.signals");
}

TEST_CASE("Columns and values of Send and Recv rounds are checked as strictly") {
  const auto refused = [](auto change, const std::string& field) {
    WireP2pRounds rounds;
    change(rounds);
    WireBatch b;
    add_p2p_rounds(b, rounds);
    require_refused(b.finish(), field);
  };
  refused([](WireP2pRounds& r) { r.direction.pop_back(); }, "P2pRounds.direction");
  refused([](WireP2pRounds& r) { r.pair_seq.pop_back(); }, "P2pRounds.pair_seq");
  refused([](WireP2pRounds& r) { r.bytes.pop_back(); }, "P2pRounds.bytes");
  refused([](WireP2pRounds& r) { r.enter.pop_back(); }, "P2pRounds.enter_monotonic_ns");
  refused([](WireP2pRounds& r) { r.launch.pop_back(); }, "P2pRounds.launch_monotonic_ns");
  refused([](WireP2pRounds& r) { r.begin.pop_back(); }, "P2pRounds.begin_device_ns");
  refused([](WireP2pRounds& r) { r.end.pop_back(); }, "P2pRounds.end_device_ns");
  refused([](WireP2pRounds& r) { r.flags.pop_back(); }, "P2pRounds.flags");
  refused([](WireP2pRounds& r) { r.replay.pop_back(); }, "P2pRounds.replay");
  refused([](WireP2pRounds& r) { r.plan.pop_back(); }, "P2pRounds.plan");
  refused([](WireP2pRounds& r) { r.peer[1] = -1; }, "P2pRounds.peer");
  refused([](WireP2pRounds& r) { r.direction[0] = 2; }, "P2pRounds.direction");
  refused([](WireP2pRounds& r) { r.pair_seq[0] = 0; }, "P2pRounds.pair_seq");
  refused([](WireP2pRounds& r) { r.end[0] = UINT64_MAX; }, "P2pRounds.end_device_ns");
  refused([](WireP2pRounds& r) { r.comm_uid = 0; }, "P2pRounds.comm_uid");
  refused([](WireP2pRounds& r) { r.rank = -1; }, "P2pRounds.rank");
  const auto link = [](int64_t gpu_ns, int32_t peer, int32_t net_device, uint16_t channel, uint8_t direction, uint64_t number = 1) {
    return wire::LinkStages(number, gpu_ns, 0, 0, 0, peer, net_device, 8, channel, direction, 0);
  };
  refused([&](WireP2pRounds& r) { r.links = {link(INT64_MIN, 1, 0, 0, 0)}; }, "LinkStages.gpu_mean_realtime_ns");
  refused([&](WireP2pRounds& r) { r.links = {link(0, rank_count_max, 0, 0, 0)}; }, "LinkStages.peer");
  refused([&](WireP2pRounds& r) { r.links = {link(0, 1, -2, 0, 0)}; }, "LinkStages.net_device");
  refused([&](WireP2pRounds& r) { r.links = {link(0, 1, 0, 64, 0)}; }, "LinkStages.channel");
  refused([&](WireP2pRounds& r) { r.links = {link(0, 1, 0, 0, 2)}; }, "LinkStages.direction");
  refused([&](WireP2pRounds& r) { r.links = {link(0, 1, 0, 0, 0, 0)}; }, "LinkStages.op_seq");
  refused([](WireP2pRounds& r) { r.away = {1}; }, "P2pRounds.link_proxy_away_us");
  refused([](WireP2pRounds& r) { r.first_step = {1}; }, "P2pRounds.link_first_step");
  refused(
      [&](WireP2pRounds& r) {
        r.links = {link(0, 1, 0, 0, 0)};
        r.first_step = {8};
      },
      "P2pRounds.link_first_step");
  refused([&](WireP2pRounds& r) { r.links.resize(links_per_message_max + 1, link(0, 1, 0, 0, 0)); }, "P2pRounds.links");
}

TEST_CASE("Stages of links of Send and Recv come out again, and may be absent") {
  WireP2pRounds rounds;
  rounds.links = {wire::LinkStages(7, 11, 12, 13, 14, 1, 0, 8, 3, 1, 2), wire::LinkStages(1, 21, 22, 23, 24, 1, 0, 8, 3, 0, 2)};
  rounds.away = {700, 0};
  rounds.first_step = {4, 0};
  WireBatch b;
  add_p2p_rounds(b, rounds);
  add_p2p_rounds(b, {});
  const auto batch = decode(b.finish());
  REQUIRE(batch.ok());
  const auto& links = std::get<P2pRounds>(batch->payloads[0]).links;
  REQUIRE(links.size() == 2);
  CHECK(links[0].op == OpSeq(7));
  CHECK(links[0].gpu_mean_realtime_ns == 11);
  CHECK(links[0].ready_mean_realtime_ns == 12);
  CHECK(links[0].wire_mean_realtime_ns == 13);
  CHECK(links[0].done_mean_realtime_ns == 14);
  CHECK(links[0].steps == 8);
  CHECK(links[0].channel == 3);
  CHECK(links[0].direction == abi::Direction::send);
  CHECK(links[0].group == 2);
  CHECK(links[0].proxy_away_us == 700);
  CHECK(links[0].first_step == 4);
  CHECK(links[1].first_step == 0);
  CHECK(std::get<P2pRounds>(batch->payloads[1]).links.empty());
}

TEST_CASE("What is said of an initialization, of metrics, queues and requests is checked") {
  const auto refused = [](auto add, const std::string& field) {
    WireBatch b;
    add(b);
    require_refused(b.finish(), field);
  };
  refused([](WireBatch& b) { add_comm_init(b, {.rank = 4}); }, "CommInit.rank");
  refused([](WireBatch& b) { add_comm_init(b, {.rank_count = 0}); }, "CommInit.rank_count");
  refused([](WireBatch& b) { add_comm_init(b, {.stage = 6}); }, "CommInit.stage");
  refused([](WireBatch& b) { add_comm_init(b, {.cuda_device = -2}); }, "CommInit.cuda_device");
  refused([](WireBatch& b) { add_metrics(b, {{0, "", 1}}); }, "Metric.id");
  refused([](WireBatch& b) { add_metrics(b, {{1, std::string(text_bytes_max + 1, 'x'), 1}}); }, "Metric.instance");
  refused([](WireBatch& b) { add_metrics(b, std::vector<WireMetric>(metrics_per_message_max + 1, WireMetric{1, "", 1})); },
          "Metrics.metrics");
  refused([](WireBatch& b) { add_net_queues(b, -2); }, "NetProgress.device");
  refused([](WireBatch& b) { add_net_queues(b, 0, 2); }, "NetProgress.kind");
  refused([](WireBatch& b) { add_agent_health(b, {.rank = -1}); }, "LastOperations.rank");
  refused([](WireBatch& b) { add_agent_health(b, {.launched = 13}); }, "LastOperations.entered_op_seq");
  refused([](WireBatch& b) { add_agent_health(b, {.begun = 13}); }, "LastOperations.entered_op_seq");
  refused([](WireBatch& b) { add_control_state(b, {.log = 3}); }, "ControlState.log");
  refused([](WireBatch& b) { add_control_state(b, {.budget_ppm = 1'000'001}); }, "ControlState.budget_ppm");
}

TEST_CASE("A metric of a newer probe keeps its number, a device without a name has none") {
  WireBatch b;
  add_metrics(b, {{60000, "", -5}});
  add_net_queues(b, 5);
  const auto batch = decode(b.finish());
  REQUIRE(batch.ok());
  CHECK(static_cast<int>(std::get<Metrics>(batch->payloads[0]).metrics[0].id) == 60000);
  CHECK(std::get<NetQueues>(batch->payloads[1]).queues[0].device_name.empty());
}

TEST_CASE("A batch without messages is accepted") {
  WireBatch b;
  const auto batch = decode(b.finish());
  REQUIRE(batch.ok());
  CHECK(batch->payloads.empty());
}

TEST_CASE("Every truncation of a batch is refused") {
  const Bytes whole = full_batch();
  for (size_t length = 0; length < whole.size(); ++length) {
    // A copy of exactly this length, so that a sanitizer sees every read beyond it.
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const auto batch = decode(cut);
    // The last bytes may be padding or the tail of an unused part; what is accepted must at least be whole.
    if (batch.ok()) CHECK(batch->payloads.size() == full_batch_payloads);
    else CHECK_FALSE(batch.status().message().empty());
    if (length < whole.size() / 2) CHECK_FALSE(batch.ok());
  }
}

TEST_CASE("A batch with any byte damaged is decoded or refused, never worse") {
  const Bytes whole = full_batch();
  size_t refused = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int pattern : {0x01, 0x80, 0xff}) {
      Bytes damaged = whole;
      damaged[at] = static_cast<uint8_t>(damaged[at] ^ pattern);
      const auto batch = decode(damaged);
      if (batch.ok()) continue;
      ++refused;
      CHECK_FALSE(batch.status().message().empty());
      CHECK_FALSE(reject_key(batch.status()).empty());
    }
  }
  CHECK(refused > whole.size());  // most damage shows
}

TEST_CASE("A batch is decoded at any address") {
  const Bytes whole = full_batch();
  for (size_t shift = 0; shift < 8; ++shift) {
    Bytes room(whole.size() + shift);
    std::copy(whole.begin(), whole.end(), room.begin() + static_cast<std::ptrdiff_t>(shift));
    CHECK(decode_batch(absl::MakeConstSpan(room).subspan(shift)).ok());
  }
}

TEST_CASE("Bytes that are not a batch are refused for their identifier") {
  const std::string text = "GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n";
  const auto batch = decode(Bytes(text.begin(), text.end()));
  REQUIRE_FALSE(batch.ok());
  CHECK(reject_reason(batch.status()) == RejectReason::identifier);
  CHECK(reject_reason(decode({}).status()) == RejectReason::size);
}

TEST_CASE("A batch of another schema version is refused and both versions are named") {
  WireBatch b;
  const auto batch = decode(b.finish({.schema_version = 1}));
  REQUIRE_FALSE(batch.ok());
  CHECK(reject_reason(batch.status()) == RejectReason::version);
  CHECK(std::string(batch.status().message()) == "Batch.schema_version is 1, this service reads 2 to 4");
}

TEST_CASE("Columns of unequal length are refused, whichever is short") {
  const auto shorter = [](auto& column) { column.pop_back(); };
  require_rounds_refused([&](WireRounds& r) { shorter(r.signature_index); }, "Rounds.signature_index");
  require_rounds_refused([&](WireRounds& r) { shorter(r.enter); }, "Rounds.enter_monotonic_ns");
  require_rounds_refused([&](WireRounds& r) { shorter(r.launch); }, "Rounds.launch_monotonic_ns");
  require_rounds_refused([&](WireRounds& r) { shorter(r.begin); }, "Rounds.begin_device_ns");
  require_rounds_refused([&](WireRounds& r) { shorter(r.end); }, "Rounds.end_device_ns");
  require_rounds_refused([&](WireRounds& r) { shorter(r.send); }, "Rounds.send_steps");
  require_rounds_refused([&](WireRounds& r) { shorter(r.recv); }, "Rounds.recv_steps");
  require_rounds_refused([&](WireRounds& r) { shorter(r.send_changes); }, "Rounds.send_changes");
  require_rounds_refused([&](WireRounds& r) { shorter(r.recv_changes); }, "Rounds.recv_changes");
  require_rounds_refused([&](WireRounds& r) { shorter(r.samples); }, "Rounds.samples");
  require_rounds_refused([&](WireRounds& r) { shorter(r.flags); }, "Rounds.flags");
  require_rounds_refused([](WireRounds& r) { r.op_seq.pop_back(); }, "Rounds.signature_index");
}

TEST_CASE("A missing column counts as one of unequal length") {
  WireBatch b;
  const std::vector<uint64_t> op_seq = {1};
  b.add(wire::Payload::Rounds, wire::CreateRounds(b.fbb, 0xabc, 0, b.fbb.CreateVector(op_seq)));
  require_refused(b.finish(), "Rounds.signature_index");
}

TEST_CASE("Values of rounds outside their range are refused") {
  require_rounds_refused([](WireRounds& r) { r.signature_index[1] = 1; }, "Rounds.signature_index");
  require_rounds_refused([](WireRounds& r) { r.signatures.clear(); }, "Rounds.signature_index");
  require_rounds_refused([](WireRounds& r) { r.op_seq[0] = 0; }, "Rounds.op_seq");
  require_rounds_refused([](WireRounds& r) { r.op_seq = {2, 1}; }, "Rounds.op_seq");
  require_rounds_refused([](WireRounds& r) { r.rank = -1; }, "Rounds.rank");
  require_rounds_refused([](WireRounds& r) { r.rank = rank_count_max; }, "Rounds.rank");
  require_rounds_refused([](WireRounds& r) { r.comm_uid = 0; }, "Rounds.comm_uid");
  require_rounds_refused([](WireRounds& r) { r.end[0] = UINT64_MAX; }, "Rounds.end_device_ns");
  require_rounds_refused([](WireRounds& r) { r.links = {wire::LinkStages(2, INT64_MIN, 0, 0, 0, 1, 0, 8, 0, 0, 0)}; },
                         "LinkStages.gpu_mean_realtime_ns");
  require_rounds_refused([](WireRounds& r) { r.links = {wire::LinkStages(2, 0, 0, 0, 0, 1, 0, 8, 64, 0, 0)}; }, "LinkStages.channel");
  require_rounds_refused([](WireRounds& r) { r.away = {1}; }, "Rounds.link_proxy_away_us");
  require_rounds_refused([](WireRounds& r) { r.first_step = {1}; }, "Rounds.link_first_step");
  require_rounds_refused(
      [](WireRounds& r) {
        r.links = {wire::LinkStages(2, 0, 0, 0, 0, 1, 0, 8, 0, 0, 0)};
        r.first_step = {8};
      },
      "Rounds.link_first_step");
  require_rounds_refused([](WireRounds& r) { r.links = {wire::LinkStages(2, 0, 0, 0, 0, 1, 0, 8, 0, 2, 0)}; }, "LinkStages.direction");
}

TEST_CASE("A rank outside its communicator is refused") {
  for (const int32_t rank : {-1, 2, INT32_MAX, INT32_MIN}) {
    WireBatch b;
    add_comm_up(b, {.rank = rank});
    require_refused(b.finish(), "CommUp.rank");
  }
  for (const int32_t rank_count : {0, -5, rank_count_max + 1}) {
    WireBatch b;
    add_comm_up(b, {.rank_count = rank_count});
    require_refused(b.finish(), "CommUp.rank_count");
  }
  WireBatch b;
  add_comm_up(b, {.ring_next = 2});
  require_refused(b.finish(), "ChannelTopology.ring_next");
}

TEST_CASE("The largest communicator is accepted") {
  WireBatch b;
  add_comm_up(b, {.rank = rank_count_max - 1, .rank_count = rank_count_max, .local_rank = 7});
  CHECK(decode(b.finish()).ok());
}

TEST_CASE("A sample that was taken after its batch was sent is refused") {
  WireBatch before;
  add_in_flight(before, {.sample_monotonic_ns = 123456789});  // when a WireBatch is sent
  CHECK(decode(before.finish()).ok());
  WireBatch after;
  add_in_flight(after, {.sample_monotonic_ns = uint64_t{1} << 61});
  require_refused(after.finish(), "InFlight.sample_monotonic_ns");
}

TEST_CASE("Values that select behaviour must be known") {
  const auto refused = [](const WireInFlight& flight, const std::string& field) {
    WireBatch b;
    add_in_flight(b, flight);
    require_refused(b.finish(), field);
  };
  refused({.lanes = {wire::LaneState(3, 10, 8, 11, 10, 1, 0, 0, 0, 0, 0, 0, 0, 3, 1, 0)}}, "LaneState.wait_kind");
  refused({.lanes = {wire::LaneState(3, 10, 8, 11, 10, 1, 0, 0, 0, 0, 2, 0, 0, 1, 1, 0)}}, "LaneState.direction");
  refused({.lanes = {wire::LaneState(3, 10, 8, 11, 10, 1, 0, 0, 0, 0, 0, 8, 0, 1, 1, 0)}}, "LaneState.group");
  refused({.lanes = {wire::LaneState(3, 10, 8, 11, 10, -2, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0)}}, "LaneState.peer");
  refused({.proxies = {wire::ProxyState(1, 2, 3, 4, 5, 6, 7, 1, -2, 2, 3, 1, 1, 0)}}, "ProxyState.net_device");
  refused({.state = 8}, "InFlight.state");
  refused({.p2p = {wire::P2pInFlight(9, 4, 1, -1, 0, 0, 0, 0, 1, 1, 1, 0, 7, 0, 0)}}, "P2pInFlight.peer");
  refused({.p2p = {wire::P2pInFlight(9, 4, 1, 1, 0, 0, 0, 0, 2, 1, 1, 0, 7, 0, 0)}}, "P2pInFlight.direction");
  refused({.p2p = {wire::P2pInFlight(9, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 7, 0, 0)}}, "P2pInFlight.pair_seq");
  refused({.p2p = std::vector<wire::P2pInFlight>(p2p_in_flight_max + 1)}, "InFlight.p2p");
  refused({.operations = 17}, "InFlight.operations");
  refused({.lanes = std::vector<wire::LaneState>(lanes_max + 1)}, "InFlight.lanes");
  WireBatch b;
  add_comm_down(b, 0, 8);
  require_refused(b.finish(), "CommDown.state");
}

TEST_CASE("Operation types of newer probes keep their numbers") {
  WireRounds rounds;
  rounds.signatures = {wire::OpSignature(1, -1, 200, 100, 50, 42, 33, 0, 0)};
  WireBatch b;
  add_rounds(b, rounds);
  const auto batch = decode(b.finish());
  REQUIRE(batch.ok());
  const Signature& s = std::get<Rounds>(batch->payloads[0]).rounds[0].signature;
  CHECK(static_cast<int>(s.function) == 200);
  CHECK(static_cast<int>(s.protocol) == 33);
}

TEST_CASE("A payload of a newer probe is skipped and counted") {
  WireBatch b;
  b.add(static_cast<wire::Payload>(99), wire::CreateCommDown(b.fbb, 1, 0, 2, 3));
  add_comm_down(b);
  DecodeNotes notes;
  const Bytes bytes = b.finish();
  const auto batch = decode_batch(absl::MakeConstSpan(bytes), &notes);
  REQUIRE(batch.ok());
  CHECK(batch->payloads.size() == 1);
  CHECK(notes.unknown_payloads == 1);
}

TEST_CASE("A message that names a payload and does not have it is refused") {
  WireBatch b;
  b.add(wire::Payload::Rounds, flatbuffers::Offset<wire::Rounds>());
  require_refused(b.finish(), "Message.payload");
}

TEST_CASE("Text is bounded and printable") {
  WireBatch too_long;
  require_refused(too_long.finish({.job = std::string(text_bytes_max + 1, 'x')}), "Batch.job");
  WireBatch escapes;
  const auto batch = decode(escapes.finish({.job = "a\x1b[31mb\n\x7f" "c", .host = "n\xc3\xb6"}));
  REQUIRE(batch.ok());
  CHECK(batch->job == "a?[31mb??c");
  CHECK(batch->process.host == "n\xc3\xb6");
}

TEST_CASE("A batch needs a process and a number") {
  WireBatch no_pid, no_seq;
  require_refused(no_pid.finish({.pid = 0}), "Batch.pid");
  require_refused(no_seq.finish({.batch_seq = 0}), "Batch.batch_seq");
}

TEST_CASE("A small message that refers to one long vector again and again is refused") {
  WireBatch b;
  WireRounds rounds;
  rounds.op_seq.assign(4096, 1);
  // One set of columns, many Rounds that share it: honest builders never do this.
  auto& fbb = b.fbb;
  const auto op_seq = fbb.CreateVector(rounds.op_seq);
  const auto signatures = fbb.CreateVectorOfStructs(rounds.signatures);
  const auto index = fbb.CreateVector(std::vector<uint16_t>(4096));
  const auto words = fbb.CreateVector(std::vector<uint64_t>(4096));
  const auto counts = fbb.CreateVector(std::vector<uint32_t>(4096));
  const auto flags = fbb.CreateVector(std::vector<uint8_t>(4096));
  for (int i = 0; i < 1000; ++i) {
    b.add(wire::Payload::Rounds, wire::CreateRounds(fbb, 1, 0, op_seq, signatures, index, words, words, words, words, counts, counts,
                                                    counts, counts, counts, flags));
  }
  const Bytes bytes = b.finish();
  REQUIRE(bytes.size() < 300'000);
  const auto batch = decode(bytes);
  REQUIRE_FALSE(batch.ok());
  CHECK(reject_reason(batch.status()) == RejectReason::field);
}

}  // namespace ccld::decision
