// Who goes first where there is no room for all.
#include "decision/analysis/room.h"

#include <catch2/catch.hpp>
#include <string>

#include "decision/analyzer.h"
#include "test/unit/decision/messages.h"

namespace ccld::decision {
namespace {

Batch announcement(const std::string& host, uint32_t pid, uint64_t comm, int rank, int ranks, Nanoseconds now_ns) {
  return batch_of(host, pid, now_ns, {up(comm, rank, ranks)});
}

std::vector<uint64_t> known(const Analyzer& analyzer, Nanoseconds now_ns) {
  std::vector<uint64_t> found;
  for (const CommStatus& c : analyzer.status(now_ns).communicators) found.push_back(c.comm.value);
  return found;
}

}  // namespace

TEST_CASE("Claims go before communicators of which all ranks have spoken") {
  Settings settings;
  settings.communicators_max = 3;
  Analyzer analyzer(settings);
  Nanoseconds now = ns_per_s;
  for (int rank = 0; rank < 2; ++rank)
    analyzer.apply(announcement("real", 1 + static_cast<uint32_t>(rank), 1, rank, 2, now), now);
  for (uint64_t comm = 10; comm < 40; ++comm) {
    now += ns_per_s;
    analyzer.apply(announcement("stranger", 9, comm, 0, 2, now), now);
  }
  CHECK(known(analyzer, now).size() == 3);
  CHECK(known(analyzer, now).front() == 1);
  CHECK(analyzer.let_go_so_far().communicators == 28);
}

TEST_CASE("What was in flight and is not repeated any more goes before what is heard") {
  Settings settings;
  settings.communicators_max = 2;
  Analyzer analyzer(settings);
  Nanoseconds now = ns_per_s;
  InFlight in_flight;
  in_flight.comm = CommUid{10};
  in_flight.rank = Rank{0};
  in_flight.entered = in_flight.launched = OpSeq{1};
  InFlightOp operation;
  operation.op = OpSeq{1};
  operation.launched = operation.begun = true;
  in_flight.operations = {operation};
  Batch busy = announcement("stranger", 9, 10, 0, 1, now);
  busy.payloads.emplace_back(in_flight);
  analyzer.apply(busy, now);
  now += seconds_to_ns(settings.silent_s) + ns_per_s;
  analyzer.apply(announcement("real", 1, 1, 0, 1, now), now);
  analyzer.apply(announcement("other", 2, 2, 0, 1, now), now);
  CHECK(known(analyzer, now) == std::vector<uint64_t>{1, 2});
}

TEST_CASE("Who has most of them loses his own first") {
  Settings settings;
  settings.communicators_max = 4;
  Analyzer analyzer(settings);
  Nanoseconds now = ns_per_s;
  analyzer.apply(announcement("quiet", 1, 1, 0, 1, now), now);
  for (uint64_t comm = 10; comm < 20; ++comm) {
    now += ns_per_s;
    analyzer.apply(announcement("busy", 2, comm, 0, 1, now), now);
  }
  CHECK(known(analyzer, now) == std::vector<uint64_t>{1, 17, 18, 19});
}

TEST_CASE("A full table takes in nobody in the place of what an incident is about") {
  absl::flat_hash_set<CommUid> needed;
  Watches watches;
  Settings settings;
  RankBudget budget(100);
  for (uint64_t uid = 1; uid <= 3; ++uid) {
    watches.emplace(CommUid{uid}, std::make_unique<Watch>(CommUid{uid}, settings, budget));
    needed.insert(CommUid{uid});
  }
  CHECK(least_missed(watches, needed, 3, Worth::at_work, 0).empty());
  needed.erase(CommUid{2});
  CHECK(least_missed(watches, needed, 3, Worth::at_work, 0) == std::vector<CommUid>{CommUid{2}});
}

}  // namespace ccld::decision
