#include "decision/analysis/init_waits.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::ClusterOptions;
using fake::Comm;
using fake::HangPlan;

namespace {

Settings with_init_timeout(double seconds) {
  Settings s;
  s.init_hang_s = seconds;
  return s;
}

bool mentions(const Incident& i, const std::string& what) {
  return std::any_of(i.evidence.begin(), i.evidence.end(),
                     [&](const Evidence& e) { return words(e).find(what) != std::string::npos; });
}

}  // namespace

TEST_CASE("Ranks that make a communicator with one that hangs in another one are its victims, not a second incident") {
  Cluster cluster(with_init_timeout(20));
  cluster.add_comm_of_all().rounds(10);  // tells which process is which rank
  Comm& data = cluster.add_comm({4, 5, 6, 7});
  data.rounds(20);
  HangPlan frozen;
  frozen.channels[0].stop_after[1] = 6;
  data.hang(frozen);
  cluster.make(0xabc, 8, {{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  cluster.run_s(60);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == data.uid());
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(mentions(open[0], "with hash 0000000000000abc wait for it"));
  CHECK(open[0].victim_count == 3 + 4);
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("Where nobody knows which processes an initialization misses, it may wait for the hang that holds enough of them") {
  ClusterOptions options;
  options.processes = 4;
  Cluster cluster(with_init_timeout(20), options);
  Comm& data = cluster.add_comm({2, 3});
  data.rounds(20);
  HangPlan absent;
  absent.not_called = {1};
  data.hang(absent);
  cluster.make(0xabc, 3, {{0, 0}, {1, 1}});
  cluster.run_s(60);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == data.uid());
  CHECK(mentions(open[0], "may wait for it"));
  data.recover();
  cluster.run_s(30);
  REQUIRE(cluster.open_incidents().size() == 1);
  CHECK(cluster.open_incidents()[0].title == "communicator initialization does not end");
}

TEST_CASE(
    "A rank that is missed elsewhere because it makes a communicator is no culprit, and the initialization has its own "
    "timeout") {
  Cluster cluster(with_init_timeout(100));
  Comm& data = cluster.add_comm({0, 1});
  data.rounds(20);
  HangPlan absent;
  absent.not_called = {1};
  data.hang(absent);
  cluster.make(0xabc, 3, {{0, 1}});
  cluster.run_s(95);
  INFO(text(cluster.incidents()));
  CHECK(cluster.reported().empty());
  cluster.run_s(15);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].title == "communicator initialization does not end");
  REQUIRE(open[0].victim_comms.size() == 1);
  CHECK(open[0].victim_comms[0].comm == data.uid());
  SECTION("and when it has ended, whoever still does not come is the culprit") {
    cluster.end_initialization(0xabc);
    cluster.run_s(30);
    const auto left = cluster.open_incidents();
    REQUIRE(left.size() == 1);
    CHECK(left[0].comm == data.uid());
    CHECK(ranks_of(left[0].culprits) == std::set<int>{1});
  }
}

TEST_CASE("Two ranks of which one makes a communicator and the other waits in an operation are a circle") {
  ClusterOptions options;
  options.processes = 2;
  Cluster cluster({}, options);
  Comm& data = cluster.add_comm_of_all();
  data.rounds(20);
  HangPlan absent;
  absent.not_called = {1};
  data.hang(absent);
  cluster.make(0xabc, 2, {{1, 1}});
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h2_inconsistent);
  CHECK(ranks_of(open[0].candidates) == std::set<int>{0, 1});
  REQUIRE(open[0].cycle.size() == 2);
  CHECK(mentions(open[0], "in the initialization of communicator with hash"));
}

TEST_CASE("A rank that does not come to an initialization is named with its process where that is known") {
  ClusterOptions options;
  options.processes = 4;
  Cluster cluster(with_init_timeout(20), options);
  cluster.add_comm_of_all().rounds(10);
  cluster.make(0xabc, 4, {{0, 0}, {1, 1}, {2, 2}});
  cluster.run_s(30);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].rank == Rank{3});
  CHECK(open[0].culprits[0].pid == 103);
  CHECK(open[0].culprits[0].reason == "did not come to the initialization of the communicator");
}

TEST_CASE("A process of another job that has no name either is not the one that an initialization misses") {
  ClusterOptions options;
  options.processes = 4;
  options.job = "default";
  Cluster cluster(with_init_timeout(20), options);
  Comm* known = nullptr;
  SECTION("of which nothing is known but that it lives") { cluster.add_comm({3}).rounds(10); }
  SECTION("unless communicators connect it with those that wait, although some have no other one") {
    known = &cluster.add_comm({2, 3});
  }
  if (known) known->rounds(10);
  cluster.make(0xabc, 4, {{0, 0}, {1, 1}, {2, 2}});
  cluster.run_s(30);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{3});
  CHECK(open[0].culprits[0].pid == (known ? 103 : 0));
}

TEST_CASE("An initialization does not wait for the hang of another job that has no name either") {
  ClusterOptions options;
  options.job = "default";
  Cluster cluster(with_init_timeout(20), options);
  Comm& other = cluster.add_comm({4, 5, 6, 7});
  other.rounds(20);
  HangPlan absent;
  absent.not_called = {1};
  other.hang(absent);
  cluster.make(0xabc, 6, {{0, 0}, {1, 1}, {2, 2}, {3, 3}});
  cluster.run_s(60);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 2);
  for (const Incident& i : open) {
    const bool hang = i.comm == other.uid();
    CHECK(ranks_of(i.culprits) == (hang ? std::set<int>{1} : std::set<int>{4, 5}));
    CHECK_FALSE(mentions(i, "may wait for it"));
  }
}

TEST_CASE("Who waits in an initialization that has failed on another rank is no culprit where he is missed") {
  Cluster cluster(with_init_timeout(100));
  Comm& data = cluster.add_comm({0, 1});
  data.rounds(20);
  HangPlan absent;
  absent.not_called = {1};
  data.hang(absent);
  for (int second = 0; second < 30; ++second) {
    for (int process : {1, 2}) {
      CommInit m;
      m.comm_hash = 0xabc;
      m.rank = Rank{process - 1};
      m.rank_count = 2;
      m.stage = process == 2 ? abi::InitStage::failed : abi::InitStage::entered;
      m.result = process == 2 ? 3 : 0;
      m.stage_age_ms = m.enter_age_ms = static_cast<uint32_t>(second) * 1000;
      m.cuda_device = process % 4;
      m.number = 1;
      cluster.send(process, {m});
    }
    cluster.run_s(1);
  }
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].title == "communicator initialization does not end");
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].culprits[0].pid == 102);
  REQUIRE(open[0].victim_comms.size() == 1);
  CHECK(open[0].victim_comms[0].comm == data.uid());
}

}  // namespace ccld::decision
