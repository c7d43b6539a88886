#include "decision/model/call_record.h"

#include <catch2/catch.hpp>

#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {
namespace {

using Micros = RecordedCall::Micros;

// A call that began for each rank so many milliseconds before its end, by clocks of their own.
RoundEntry call(uint64_t op, std::vector<double> lasted_ms, uint32_t replay = 0) {
  RoundEntry e;
  e.op = OpSeq{op};
  e.replay = replay;
  e.groups.push_back({fake::all_reduce(1024), static_cast<uint32_t>(lasted_ms.size())});
  uint64_t clock = 1'000'000'000;
  for (const double ms : lasted_ms) {
    RoundCell c;
    c.begin_device_ns = clock += 777'777'777;
    c.end_device_ns = c.begin_device_ns + static_cast<uint64_t>(ms * 1e6);
    c.reported = c.timed = ms > 0;
    e.cells.push_back(c);
  }
  return e;
}

double late_ms(const RecordedCall& c, size_t rank) { return static_cast<double>(Micros::decode(c.late[rank])) / 1e3; }

}  // namespace

TEST_CASE("Who waited the shortest came last, whatever the clocks of the GPUs say") {
  const auto c = recorded_call(call(17, {80, 79, 4, 80}), ns_per_s);
  REQUIRE(c);
  CHECK(c->op == OpSeq{17});
  CHECK(c->heard_ns == ns_per_s);
  CHECK(late_ms(*c, 0) == 0);
  CHECK(late_ms(*c, 1) == Approx(1).epsilon(0.07));
  CHECK(late_ms(*c, 2) == Approx(76).epsilon(0.07));
  CHECK(c->times.longest_ns == 80 * ns_per_ms);
  CHECK(c->times.shortest_ns == 4 * ns_per_ms);
}

TEST_CASE("A rank that was not measured is neither late nor on time") {
  const auto c = recorded_call(call(1, {80, 0, 4}), ns_per_s);
  REQUIRE(c);
  CHECK(c->late[1] == Micros::none);
}

TEST_CASE("Nothing is said where durations do not tell who was late") {
  RoundEntry broadcast = call(1, {80, 4});
  broadcast.groups[0].signature.function = abi::Function::broadcast;
  CHECK(recorded_call(broadcast, ns_per_s) == nullptr);
  CHECK(recorded_call(call(1, {80, 0, 0}), ns_per_s) == nullptr);
  CHECK(recorded_call(call(1, {0, 0}), ns_per_s) == nullptr);
}

TEST_CASE("The newest hundred calls are kept, in the order of operations") {
  CallRecord record;
  for (uint64_t op = 1; op <= 150; ++op)
    if (op != 140) record.add(recorded_call(call(op, {2, 1}), ns_per_s));
  record.add(recorded_call(call(140, {2, 1}), ns_per_s));  // reports of some ranks came late
  record.add(nullptr);
  const auto calls = record.calls();
  REQUIRE(calls.size() == CallRecord::calls_max);
  CHECK(calls.front()->op == OpSeq{51});
  for (size_t i = 1; i < calls.size(); ++i) CHECK(calls[i]->op.value == calls[i - 1]->op.value + 1);
}

TEST_CASE("Replays of a graph follow each other, although their operations are the same") {
  CallRecord record;
  for (uint32_t replay = 1; replay <= 3; ++replay)
    for (uint64_t op : {5, 6}) record.add(recorded_call(call(op, {2, 1}, replay), ns_per_s));
  std::vector<std::pair<uint32_t, uint64_t>> order;
  for (const auto& c : record.calls()) order.emplace_back(c->replay, c->op.value);
  CHECK(order == std::vector<std::pair<uint32_t, uint64_t>>{{1, 5}, {1, 6}, {2, 5}, {2, 6}, {3, 5}, {3, 6}});
}

}  // namespace ccld::decision
