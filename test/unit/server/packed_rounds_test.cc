// Packed rounds are decoded as those in columns are, and hostile ones are refused before they take memory.
#include <catch2/catch.hpp>

#include <functional>
#include <random>
#include <variant>

#include "decision/ingest/batch_decoder.h"
#include "decision/ingest/limits.h"
#include "schemas/wire/packed_calls.h"
#include "schemas/wire/packed_links.h"
#include "schemas/wire/packed_metrics.h"
#include "schemas/wire/packed_structs.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::decision::ingest {
namespace {

using namespace ccld::test;

struct Packed {
  uint64_t comm_uid = 0xabc;
  int32_t rank = 0;
  uint32_t rows = 2, link_rows = 1;
  std::vector<wire::OpSignature> signatures = {wire_signature()};
  std::vector<wire::P2pKind> kinds = {{4096, 1, 1}};
  std::vector<wire::CallRow> calls;
  std::vector<wire::LinkRow> links = {{1, 2, 3, 4, 5, 1, 0, 64, 8, 700, 2, 1, 3}};
  std::function<void(Bytes&)> spoil = [](Bytes&) {};
  Packed() {
    wire::CallRow r;
    r.number = 1;
    r.enter_monotonic_ns = 100, r.launch_monotonic_ns = 110, r.begin_device_ns = 1000, r.end_device_ns = 2000;
    r.send_steps = 8, r.recv_steps = 9, r.send_changes = 2, r.recv_changes = 4, r.samples = 6;
    r.flags = 1, r.signals = 5;
    calls = {r, r};
    calls[1].number = 2, calls[1].replay = 3, calls[1].plan = 0;
  }
};

// `p2p`: as Send and Recv.
Bytes batch_of(const std::vector<Packed>& messages, bool p2p = false) {
  WireBatch b;
  for (const Packed& p : messages) {
    const size_t kinds = p2p ? p.kinds.size() : p.signatures.size();
    Bytes calls = wire::pack(p.calls, kinds, p2p ? wire::Numbering::of_kind : wire::Numbering::of_all);
    p.spoil(calls);
    const auto calls_at = b.fbb.CreateVector(calls), links_at = b.fbb.CreateVector(wire::pack(p.links));
    if (p2p)
      b.add(wire::Payload::PackedP2pRounds,
            wire::CreatePackedP2pRounds(b.fbb, p.comm_uid, p.rank, p.rows, b.fbb.CreateVectorOfStructs(p.kinds), calls_at, p.link_rows, links_at));
    else
      b.add(wire::Payload::PackedRounds, wire::CreatePackedRounds(b.fbb, p.comm_uid, p.rank, p.rows, b.fbb.CreateVectorOfStructs(p.signatures),
                                                                  calls_at, p.link_rows, links_at));
  }
  WireProcess process;
  process.schema_version = 3;
  return b.finish(process);
}

// What is wrong; "" if nothing is.
std::string refused(const std::function<void(Packed&)>& change, bool p2p = false) {
  Packed p;
  change(p);
  const auto batch = decode_batch(batch_of({p}, p2p));
  return batch.ok() ? "" : std::string(batch.status().message());
}

}  // namespace

TEST_CASE("Packed rounds are decoded as they were sent") {
  const auto batch = decode_batch(batch_of({Packed()}));
  REQUIRE(batch.ok());
  REQUIRE(batch->payloads.size() == 1);
  const auto& m = std::get<Rounds>(batch->payloads[0]);
  CHECK(m.comm == CommUid(0xabc));
  REQUIRE(m.rounds.size() == 2);
  const Round& r = m.rounds[1];
  CHECK(r.op == OpSeq(2));
  CHECK(r.replay == 3);
  CHECK(r.signature.count == 1024);
  CHECK((r.enter_monotonic_ns == 100 && r.launch_monotonic_ns == 110 && r.begin_device_ns == 1000 && r.end_device_ns == 2000));
  CHECK((r.send_steps == 8 && r.recv_steps == 9 && r.send_changes == 2 && r.recv_changes == 4 && r.samples == 6));
  CHECK((r.flags == 1 && r.signals == 5));
  REQUIRE(m.links.size() == 1);
  CHECK((m.links[0].done_mean_realtime_ns == 5 && m.links[0].first_step == 8 && m.links[0].proxy_away_us == 700));
}

TEST_CASE("Packed calls of Send and Recv are decoded as they were sent") {
  const auto batch = decode_batch(batch_of({Packed()}, true));
  REQUIRE(batch.ok());
  const auto& m = std::get<P2pRounds>(batch->payloads[0]);
  REQUIRE(m.rounds.size() == 2);
  CHECK((m.rounds[0].peer == Rank(1) && m.rounds[0].bytes == 4096 && m.rounds[0].direction == abi::Direction::send));
  CHECK((m.rounds[1].pair_seq == 2 && m.rounds[1].end_device_ns == 2000 && m.rounds[1].recv_steps == 9));
  CHECK(m.links.size() == 1);
}

TEST_CASE("What is wrong with packed rounds is named") {
  CHECK(refused([](Packed&) {}).empty());
  CHECK(refused([](Packed& p) { p.comm_uid = 0; }) == "PackedRounds.comm_uid is 0");
  CHECK(refused([](Packed& p) { p.rank = -1; }).find("PackedRounds.rank") == 0);
  CHECK(refused([](Packed& p) { p.rows = 3; }) == "PackedRounds.calls are not 3 rows of 1 kinds");
  CHECK(refused([](Packed& p) { p.spoil = [](Bytes& b) { b.pop_back(); }; }).find("PackedRounds.calls") == 0);
  CHECK(refused([](Packed& p) { p.spoil = [](Bytes& b) { b.clear(); }; }).find("PackedRounds.calls") == 0);
  CHECK(refused([](Packed& p) { p.link_rows = 2; }) == "PackedRounds.links are not 2 rows");
  CHECK(refused([](Packed& p) { p.links[0].first_step = 64; }) == "PackedRounds.link_first_step is 64, there are 64 steps");
  CHECK(refused([](Packed& p) { p.calls[1].number = 0; }).find("Rounds.op_seq") == 0);
  CHECK(refused([](Packed& p) { p.calls[0].number = 3, p.calls[1].replay = 0; }) == "Rounds.op_seq is not in order");
  CHECK(refused([](Packed& p) { p.calls[0].end_device_ns = UINT64_MAX; }).find("Rounds.end_device_ns") == 0);
  CHECK(refused([](Packed& p) { p.kinds[0] = {1, -1, 0}; }, true).find("P2pRounds.peer") == 0);
  CHECK(refused([](Packed& p) { p.kinds[0] = {1, 1, 2}; }, true).find("P2pRounds.direction") == 0);
  CHECK(refused([](Packed& p) { p.kinds.clear(); }, true).find("PackedP2pRounds.calls") == 0);
}

TEST_CASE("Packed metrics and states are decoded as they were sent, and what is wrong with them is named") {
  const auto batch_with = [](uint32_t rows, uint32_t lane_rows, std::vector<wire::MetricRow> metrics) {
    WireBatch b;
    const std::vector<wire::LaneState> lanes = {wire::LaneState(3, 10, 8, 11, 10, 1, 240, 1, 250, 1, 0, 2, 3, 1, 1, 0),
                                                wire::LaneState(3, 12, 8, 11, 10, 2, 240, 1, 250, 1, 1, 2, 3, 1, 1, 0)};
    const std::vector<wire::ProxyState> proxies = {wire::ProxyState(1, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 1, 1, 0)};
    const auto lanes_at = b.fbb.CreateVector(wire::pack(lanes)), proxies_at = b.fbb.CreateVector(wire::pack(proxies));
    wire::InFlightBuilder in_flight(b.fbb);
    in_flight.add_comm_uid(1);
    in_flight.add_lane_rows(lane_rows), in_flight.add_packed_lanes(lanes_at);
    in_flight.add_proxy_rows(1), in_flight.add_packed_proxies(proxies_at);
    b.add(wire::Payload::InFlight, in_flight.Finish());
    const auto names = b.fbb.CreateVectorOfStrings({"", "mlx5_0:1"});
    b.add(wire::Payload::Metrics, wire::CreateMetrics(b.fbb, 0, rows, names, b.fbb.CreateVector(wire::pack(std::move(metrics)))));
    return b.finish();
  };
  const std::vector<wire::MetricRow> metrics{{1, 0, 42}, {207, 1, -7}};
  const auto batch = decode_batch(batch_with(2, 2, metrics));
  REQUIRE(batch.ok());
  const auto& in_flight = std::get<InFlight>(batch->payloads[0]);
  REQUIRE((in_flight.lanes.size() == 2 && in_flight.proxies.size() == 1));
  CHECK((in_flight.lanes[1].peer == 2 && in_flight.lanes[1].current_step == 12 && in_flight.lanes[1].direction == abi::Direction::send));
  CHECK((in_flight.proxies[0].done == 5 && in_flight.proxies[0].operation == 7));
  const auto& values = std::get<Metrics>(batch->payloads[1]).metrics;
  REQUIRE(values.size() == 2);
  CHECK((values[1].instance == "mlx5_0:1" && values[1].value == -7 && static_cast<int>(values[1].id) == 207));
  const auto wrong = [&](uint32_t rows, uint32_t lane_rows, std::vector<wire::MetricRow> of) {
    return std::string(decode_batch(batch_with(rows, lane_rows, std::move(of))).status().message());
  };
  CHECK(wrong(3, 2, metrics) == "Metrics.packed are not 3 rows");
  CHECK(wrong(UINT32_MAX, 2, metrics).find("Metrics.rows is 4294967295, more than") == 0);
  CHECK(wrong(2, 5, metrics) == "InFlight.packed_lanes are not 5 rows");
  CHECK(wrong(2, UINT32_MAX, metrics).find("InFlight.packed_lanes has 4294967295 rows, more than") == 0);
  CHECK(wrong(2, 2, {{1, 0, 42}, {207, 2, -7}}) == "Metrics.instances has no 2, there are 2");
  CHECK(wrong(2, 2, {{0, 0, 42}, {207, 1, -7}}) == "Metric.id is 0");
}

TEST_CASE("Rows that take no bytes are bounded, in one message and in all of a batch") {
  CHECK(refused([](Packed& p) { p.rows = UINT32_MAX; }).find("PackedRounds.calls has 4294967295 rows, more than 65536 in all") == 0);
  CHECK(refused([](Packed& p) { p.link_rows = UINT32_MAX; }).find("PackedRounds.links has 4294967295 rows") == 0);
  Packed many;
  many.calls.assign(rounds_per_message_max / 4, many.calls[0]);
  many.rows = static_cast<uint32_t>(many.calls.size());
  many.links.clear(), many.link_rows = 0;
  CHECK(decode_batch(batch_of({many, many, many, many})).ok());
  const auto more = decode_batch(batch_of({many, many, many, many, many}));
  REQUIRE_FALSE(more.ok());
  CHECK(std::string(more.status().message()).find("PackedRounds.calls has 16384 rows, more than 65536 in all") == 0);
}

TEST_CASE("Packed rounds with any byte damaged are decoded or refused, never worse") {
  const Bytes whole = batch_of({Packed()});
  std::mt19937 random(4);
  for (int run = 0; run < 20'000; ++run) {
    Bytes damaged = whole;
    damaged[random() % damaged.size()] = static_cast<uint8_t>(random());
    const auto batch = decode_batch(damaged);
    if (!batch.ok()) CHECK_FALSE(batch.status().message().empty());
  }
}

}  // namespace ccld::decision::ingest
