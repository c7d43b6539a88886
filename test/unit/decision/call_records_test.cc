#include "decision/analysis/call_records.h"

#include <catch2/catch.hpp>

#include "test/support/telemetry/fake_cluster.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {
namespace {

using fake::Cluster;
using fake::Comm;
using fake::RoundShape;

constexpr int late_rank = 2;

RoundShape one_rank_late() {
  RoundShape shape;
  shape.gap_ns = [](int r, uint64_t) { return 10 * ns_per_ms + (r == late_rank ? 40 * ns_per_ms : 0); };
  return shape;
}

}  // namespace

TEST_CASE("Of a job that is well no call is kept, and it is counted how many there were") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(2000);
  cluster.run_s(1);
  const StatusView view = cluster.analyzer().status(cluster.now_ns());
  CHECK(view.calls.empty());
  REQUIRE(view.communicators.size() == 1);
  REQUIRE(view.communicators[0].call_history);
  const auto& buckets = view.communicators[0].call_history->buckets;
  REQUIRE(buckets.size() >= 2);
  const auto times = buckets[1].times();
  REQUIRE(times);
  CHECK(buckets[1].call_count() > 100);
  CHECK(times->shortest_ns >= 3 * ns_per_ms);
  CHECK(times->longest_ns >= times->shortest_ns);
}

TEST_CASE("While an incident is open its communicator's newest calls show the culprit late in all of them") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(1500);
  comm.rounds(2500, one_rank_late());
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  const StatusView view = cluster.analyzer().status(cluster.now_ns());
  REQUIRE(view.calls.size() == 1);
  CHECK(view.calls[0].comm == comm.uid());
  REQUIRE(view.calls[0].calls.size() == CallRecord::calls_max);
  for (const auto& call : view.calls[0].calls)
    for (size_t r = 0; r < call->late.size(); ++r) {
      const auto late_ms = static_cast<double>(RecordedCall::Micros::decode(call->late[r])) / 1e3;
      if (r == late_rank)
        CHECK(late_ms > 35);
      else
        CHECK(late_ms < 5);
    }

  // The calls that a rank waits in became longer, what they need did not.
  const auto& buckets = view.communicators[0].call_history->buckets;
  CHECK(buckets.back().times()->longest_ns > 40 * ns_per_ms);
  CHECK(buckets.back().times()->shortest_ns < 8 * ns_per_ms);

  comm.rounds(10'000);
  CHECK(cluster.open_incidents().empty());
  CHECK(cluster.analyzer().status(cluster.now_ns()).calls.empty());
}

TEST_CASE("Communicators of no more ranks than the bound are recorded, those of the oldest incidents first") {
  const Settings settings;
  RankBudget budget(settings.memberships_max);
  Watches watches;
  IncidentBook book(settings);
  ProcessModel process;
  const auto add = [&](uint64_t uid, int rank_count) {
    auto& watch = watches[CommUid{uid}] = std::make_unique<Watch>(CommUid{uid}, settings, budget);
    CommUp up;
    up.comm = CommUid{uid};
    up.rank_count = rank_count;
    watch->comm.up(up, process, 1);
    Incident incident;
    incident.comm = CommUid{uid};
    return book.open(incident).id;
  };
  const uint64_t first = add(1, static_cast<int>(CallRecords::ranks_max) - 8);
  add(2, 16);
  add(3, 8);
  CallRecords records;
  const auto kept = [&] {
    records.choose(book, watches);
    std::vector<uint64_t> uids;
    for (const CommCalls& c : records.all()) uids.push_back(c.comm.value);
    return uids;
  };
  CHECK(kept() == std::vector<uint64_t>{1, 3});
  book.resolve(first, 2);
  CHECK(kept() == std::vector<uint64_t>{2, 3});
  watches.erase(CommUid{3});
  CHECK(kept() == std::vector<uint64_t>{2});
}

TEST_CASE("A look takes no more cells than the bound, and the next one goes on") {
  const Settings settings;
  RankBudget budget(settings.memberships_max);
  Watches watches;
  IncidentBook book(settings);
  ProcessModel process;
  const CommUid comm{1};
  watches[comm] = std::make_unique<Watch>(comm, settings, budget);
  CommUp up;
  up.comm = comm;
  up.rank_count = static_cast<int>(CallRecords::ranks_max);
  watches[comm]->comm.up(up, process, 1);
  Incident incident;
  incident.comm = comm;
  book.open(incident);
  RoundEntry call;
  call.groups.push_back({fake::all_reduce(), 2});
  call.cells.resize(CallRecords::ranks_max);
  for (size_t r : {size_t{0}, CallRecords::ranks_max - 1}) {
    call.cells[r].end_device_ns = 10;
    call.cells[r].timed = true;
  }
  CallRecords records;
  records.add(comm, call, ns_per_s);  // nobody has chosen it yet
  for (uint64_t look = 1; look <= 3; ++look) {
    records.choose(book, watches);
    for (int i = 0; i < 5; ++i) {
      ++call.op.value;
      records.add(comm, call, ns_per_s);
    }
    REQUIRE(records.all().size() == 1);
    CHECK(records.all()[0].calls.size() == look);
  }
}

}  // namespace ccld::decision
