#include "decision/paper/rules.h"

#include <catch2/catch.hpp>

#include "decision/paper/comparable.h"
#include "decision/paper/slow.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::HangPlan;
using fake::RoundShape;

namespace {

Settings paper() {
  Settings s;
  s.rules = RuleSet::paper;
  s.slow_window_s = 5;
  return s;
}

Incident only(const Cluster& cluster) {
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  return open[0];
}

}  // namespace

TEST_CASE("The paper's rules wait for the duration threshold and then name the counter that did not advance") {
  Cluster cluster(paper());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  HangPlan plan;
  plan.not_called = {5};
  comm.hang(plan);
  cluster.run_s(298);
  CHECK(cluster.reported().empty());
  cluster.run_s(5);
  const Incident i = only(cluster);
  CHECK(i.rules == RuleSet::paper);
  CHECK(i.fault == FaultClass::h1_not_entered);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(ranks_of(i.culprits) == std::set<int>{5});
}

TEST_CASE("The paper's rules drop barriers") {
  Cluster cluster(paper());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  HangPlan plan;
  plan.signature = fake::all_reduce(1);
  plan.signature.datatype = abi::Datatype::uint8;
  plan.not_called = {5};
  comm.hang(plan);
  cluster.run_s(1000);
  CHECK(cluster.reported().empty());
}

TEST_CASE("The paper's rules take ranks that do not hang for inconsistent ones, and otherwise the fewest counts") {
  Cluster cluster(paper());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  HangPlan plan;
  for (int c : {0, 1}) plan.channels[c].stop_after[3] = 0;
  comm.hang(plan);
  cluster.run_s(305);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h3_hardware);
  CHECK(ranks_of(i.culprits) == std::set<int>{3});
}

TEST_CASE("The paper's P tells a late rank from slow communication") {
  Cluster cluster(paper());
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(200);
  RoundShape shape;
  const bool late = GENERATE(true, false);
  if (late)
    shape.gap_ns = [](int r, uint64_t) { return (r == 6 ? 50 : 10) * ns_per_ms; };
  else
    shape.comm_ns = 60 * ns_per_ms;
  comm.rounds(800, shape);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == (late ? FaultClass::s1_computation_slow : FaultClass::s2_communication_slow));
  if (late) CHECK(ranks_of(i.culprits) == std::set<int>{6});
}

TEST_CASE("Trees are compared within a layer, rings across all ranks") {
  Cluster cluster;
  Comm& fake_comm = cluster.add_comm_of_all(abi::Algorithm::tree);
  (void)fake_comm;
  Settings settings;
  Communicator comm(CommUid{1}, settings);
  ProcessTable processes(settings);
  for (int r = 0; r < 7; ++r) {
    Batch b;
    b.process.pid = 1 + r;
    CommUp up;
    up.comm = CommUid{1};
    up.rank = Rank{r};
    up.rank_count = 7;
    ChannelTopology t;
    t.tree_depth = fake::Topology{}.depth(r);
    up.channels = {t};
    comm.up(up, *processes.heard(b, 1), 1);
  }
  CHECK(comparable_groups(comm, abi::Algorithm::ring).size() == 1);
  const auto layers = comparable_groups(comm, abi::Algorithm::tree);
  REQUIRE(layers.size() == 3);
  CHECK(layers[2].size() == 4);
}

TEST_CASE("T_base is the mean of the maxima of the first rounds and then stays") {
  Settings s;
  s.baseline_rounds_max = 4;
  PaperBaseline b(s);
  CHECK(b.t_base_ns() == 0);
  for (double t : {10.0, 20.0, 30.0}) b.count(t, s, 1);
  CHECK(b.t_base_ns() == 0);
  b.count(40, s, 1);
  CHECK(b.is_fixed());
  CHECK(b.t_base_ns() == 25);
  b.count(1000, s, 2);
  CHECK(b.t_base_ns() == 25);
}

TEST_CASE("T_base takes the rounds of the first two minutes if they are fewer") {
  Settings s;
  PaperBaseline b(s);
  for (int i = 0; i < 3; ++i) b.count(10, s, 1 + i * 50 * ns_per_s);
  CHECK_FALSE(b.is_fixed());
  b.count(1000, s, 151 * ns_per_s);
  CHECK(b.is_fixed());
  CHECK(b.t_base_ns() == 10);
}

TEST_CASE("A configured value serves until the first rounds are over") {
  Settings s;
  s.baseline_init_ms = 5;
  s.baseline_rounds_max = 2;
  PaperBaseline b(s);
  CHECK(b.t_base_ns() == 5e6);
  CHECK_FALSE(b.is_fixed());
  b.count(10, s, 1);
  b.count(20, s, 2);
  CHECK(b.t_base_ns() == 15);
}

TEST_CASE("The paper's barriers are AllReduces of fewer than four bytes") {
  const Settings settings;
  Signature s = fake::all_reduce(1);
  CHECK_FALSE(is_barrier_by_paper(s, settings));
  s.datatype = abi::Datatype::int8;
  CHECK(is_barrier_by_paper(s, settings));
}

}  // namespace ccld::decision
