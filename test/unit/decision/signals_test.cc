// "Not measured" is never "not moving", and what an operator stopped is nobody's fault.
#include <catch2/catch.hpp>

#include "decision/locate/hang.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using namespace fake;

namespace {

Settings quick() {
  Settings s;
  s.warmup_rounds = 2;
  return s;
}

}  // namespace

TEST_CASE("A rank whose probe is stopped is never a culprit, however the walk ends") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan plan;
  plan.stopped_probes = {3};
  SECTION("it would have been the one whose kernel stands still") { plan.channels[0].stop_after[3] = 4; }
  SECTION("it would have been the one that did not call") { plan.not_called = {3}; }
  SECTION("the others wait for it before their kernels start") {
    plan.not_called = {3};
    plan.called_only = {0, 1, 2, 4, 5, 6, 7};
  }
  comm.hang(plan);
  c.run_s(400);
  for (const Incident& i : c.reported()) {
    INFO(i);
    CHECK(ranks_of(i.culprits).count(3) == 0);
    if (!plan.called_only.empty()) CHECK(i.culprits.empty());
  }
  CHECK_FALSE(c.reported().empty());  // the others do wait
}

TEST_CASE("A stopped probe on a healthy job is no incident, even though its process goes silent about it") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan plan;  // nothing is broken: all complete
  plan.stopped_probes = {0, 5};
  comm.hang(plan);
  c.run_s(30);
  comm.rounds(50);
  c.run_s(10);
  CHECK(c.open_incidents().empty());
}

TEST_CASE("A kernel whose waits are not measured is not accused of standing still") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan plan;
  plan.channels[0].stop_after[3] = 4;
  plan.signals = abi::signal_times | abi::signal_steps;
  comm.hang(plan);
  c.run_s(60);
  for (const Incident& i : c.reported())
    for (const Culprit& culprit : i.culprits) CHECK(culprit.component != Component::gpu);
}

TEST_CASE("An operation that shows no steps hangs by the clock alone, not because nothing is seen to move") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan plan;
  for (int r = 0; r < 8; ++r) plan.channels[0].stop_after[r] = plan.channels[1].stop_after[r] = 0;
  plan.signals = abi::signal_stream;
  comm.hang(plan);
  c.run_s(200);
  CHECK(c.reported().empty());
  c.run_s(150);
  REQUIRE_FALSE(c.open_incidents().empty());
  CHECK(c.open_incidents()[0].culprits.empty());
}

TEST_CASE("A replay that all ranks have begun and none ends is located like a call") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan plan;
  plan.replay = 7;
  plan.channels[0].stop_after[3] = 4;
  comm.hang(plan);
  c.run_s(30);
  const auto open = c.open_incidents();
  REQUIRE(open.size() == 1);
  INFO(open[0]);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].op == OpSeq{20});
  CHECK(open[0].replay == 7);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3});
  comm.recover();
  c.run_s(5);
  CHECK(c.open_incidents().empty());
}

TEST_CASE("A replay that only some ranks show gives no verdict: nobody knows who has launched the graph") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan plan;
  plan.replay = 7;
  plan.launched_only = {3};
  comm.hang(plan);
  c.run_s(400);
  CHECK(c.reported().empty());
}

TEST_CASE("A lost rank is named in a replay, too, although nobody knows whether its GPU had run the one before") {
  Cluster c(quick());
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  for (int process = 0; process < 8; ++process) {
    if (process == 3) continue;  // its report of replay 6 is lost with it
    Rounds m;
    m.comm = comm.uid();
    m.rank = Rank{process};
    m.rounds.resize(1);
    m.rounds[0].op = OpSeq{20};
    m.rounds[0].signature = all_reduce();
    m.rounds[0].replay = 6;
    c.send(process, {m});
  }
  HangPlan plan;
  plan.replay = 7;
  plan.launched_only = {3};
  Condition condition = Condition::gone;
  SECTION("its process is gone, and all others have begun") { c.kill_process(3); }
  SECTION("its process is gone, and another GPU has not begun yet") {
    plan.launched_only = {2, 3};
    c.kill_process(3);
  }
  SECTION("its process is silent") {
    c.silence_process(3);
    condition = Condition::silent;
  }
  comm.hang(plan);
  c.run_s(120);
  const auto open = c.open_incidents();
  INFO(text(c.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(open[0].replay == 7);
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{3});
  CHECK(open[0].culprits[0].condition == condition);
  if (condition == Condition::silent)
    CHECK(open[0].culprits[0].reason.find("was not seen to begin replay 7") != std::string::npos);
}

TEST_CASE("The last words of a lost rank do not say which replay the others are in") {
  ClusterOptions two;
  two.processes = 2;
  Cluster c(quick(), two);
  Comm& comm = c.add_comm_of_all();
  comm.announce();
  comm.rounds(20);
  HangPlan before, now;
  before.replay = 6;
  before.channels[0].stop_after[1] = 4;
  comm.hang(before);
  c.run_s(1.5);  // both are seen in replay 6
  c.kill_process(1);
  Rounds m;
  m.comm = comm.uid();
  m.rank = Rank{0};
  m.rounds.resize(1);
  m.rounds[0].op = OpSeq{20};
  m.rounds[0].signature = all_reduce();
  m.rounds[0].replay = 6;
  c.send(0, {m});
  now.replay = 7;
  now.launched_only = {1};
  comm.hang(now);
  c.run_s(60);
  const auto open = c.open_incidents();
  INFO(text(c.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].replay == 7);
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].culprits[0].condition == Condition::gone);
}

TEST_CASE("A process that falls silent after a request to its probe may have been told to report elsewhere") {
  Settings s;
  ProcessTable processes(s);
  Communicator comm(CommUid{7}, s);
  const auto heard = [&](uint32_t pid, Nanoseconds at_ns) {
    Batch b;
    b.process = {"host", "boot", pid, 0, 1};
    b.sent_monotonic_ns = at_ns;
    return processes.heard(b, at_ns);
  };
  ProcessModel* tuned = heard(1, ns_per_s);
  CommUp up;
  up.comm = CommUid{7};
  up.rank_count = 1;
  comm.up(up, *tuned, ns_per_s);
  ControlState state;
  state.endpoint = "tcp://elsewhere:1";
  ProcessTable::control(*tuned, state);
  const RankModel& rank = *comm.rank(Rank{0});
  CHECK(life_of(rank, processes) == Life::well);
  heard(2, 100 * ns_per_s);
  CHECK(life_of(rank, processes) == Life::not_watched);
  // One that went on reporting here and is silent later is silent.
  heard(1, 101 * ns_per_s);
  heard(2, 200 * ns_per_s);
  CHECK(life_of(rank, processes) == Life::silent);
}

}  // namespace ccld::decision
