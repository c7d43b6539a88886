#include "decision/locate/across.h"

#include <numeric>

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::ClusterOptions;
using fake::Comm;
using fake::HangPlan;

TEST_CASE("A communicator that waits for a process which is stuck in another one is a victim of that one") {
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({3, 7});
  tensor.rounds(20);
  data.rounds(20);
  HangPlan broken;
  broken.channels[0].stop_after[1] = 6;  // rank 1 of the tensor communicator freezes
  tensor.hang(broken);
  HangPlan waits;
  waits.not_called = {0};  // process 3 is inside the tensor communicator
  data.hang(waits);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == tensor.uid());
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].victim_count == 3 + 2);
  REQUIRE(open[0].victim_comms.size() == 1);
  CHECK(open[0].victim_comms[0].comm == data.uid());
  CHECK(open[0].victim_comms[0].rank_count == 2);
  CHECK(open[0].victim_comms[0].op == OpSeq{data.op()});
}

TEST_CASE("A GPU that does not begin what was launched is reported there, not where its host has come no further") {
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({1, 5});
  for (int i = 0; i < 20; ++i) tensor.rounds(1), data.rounds(1);
  tensor.rounds(1);  // after which process 1 usually goes on in `data`
  HangPlan stuck, waits;
  stuck.launched_only = {1};
  tensor.hang(stuck);
  waits.not_called = {0};
  data.hang(waits);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == tensor.uid());
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].culprits[0].component == Component::gpu);
}

TEST_CASE("A process that is missed in two communicators is one cause, although only one of them was announced") {
  Cluster cluster;
  const auto lose = [&](bool lost) {
    for (int process = 0; process < 8; ++process) cluster.lose_telemetry(process, lost);
  };
  lose(true);
  Comm& data = cluster.add_comm({3, 7});
  data.rounds(20);
  lose(false);
  Comm& all = cluster.add_comm_of_all();
  data.rounds(20);
  all.rounds(20);
  HangPlan without_first, without_fourth;
  without_first.not_called = {0};
  without_fourth.not_called = {3};
  data.hang(without_first);  // of process 3
  all.hang(without_fourth);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].pid == 103);
  CHECK(open[0].culprits[0].cuda_device == 3);
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("Who has not spoken yet when the service comes to know of a hang is given the time of silence to do so") {
  Cluster cluster;
  const auto lose = [&](bool lost) {
    for (int process = 0; process < 8; ++process) cluster.lose_telemetry(process, lost);
  };
  lose(true);  // nobody listens, so nobody hears the announcements either
  Comm& all = cluster.add_comm_of_all();
  all.rounds(20);
  HangPlan hang;
  hang.not_called = {0};
  all.hang(hang);
  cluster.run_s(30);
  lose(false);
  cluster.lose_telemetry(0, true);  // it comes later
  cluster.run_s(3);
  cluster.lose_telemetry(0, false);
  cluster.run_s(10);
  INFO(text(cluster.reported()));
  for (const Incident& reported : cluster.reported()) {
    REQUIRE(ranks_of(reported.culprits) == std::set<int>{0});
    CHECK(reported.culprits[0].condition == Condition::not_called);
  }
  REQUIRE(cluster.open_incidents().size() == 1);
}

TEST_CASE("Who never speaks is named after the time of silence") {
  Cluster cluster;
  cluster.lose_telemetry(6, true);
  Comm& all = cluster.add_comm_of_all();
  all.rounds(20);
  HangPlan hang;
  hang.not_called = {6};
  all.hang(hang);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].condition == Condition::never_heard);
  CHECK(open[0].culprits[0].rank == Rank{6});
}

TEST_CASE("Processes of two jobs that never spoke are two causes, also if nobody has named the jobs") {
  ClusterOptions options;
  SECTION("named") { options.processes_per_job = 4; }
  SECTION("not named") { options.job = "default"; }
  Cluster cluster({}, options);
  for (int process : {3, 6}) cluster.lose_telemetry(process, true);
  Comm& a = cluster.add_comm({0, 1, 2, 3});
  Comm& b = cluster.add_comm({4, 5, 6, 7});
  a.rounds(20);
  b.rounds(20);
  HangPlan without_fourth, without_third;
  without_fourth.not_called = {3};
  without_third.not_called = {2};
  a.hang(without_fourth);
  b.hang(without_third);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 2);
  for (const Incident& i : open) {
    CHECK(ranks_of(i.culprits) == std::set<int>{i.comm == a.uid() ? 3 : 2});
    CHECK(i.victim_comms.empty());
  }
  CHECK(open[0].comm != open[1].comm);
}

TEST_CASE("What waits in several communicators for processes that never spoke is one cause") {
  Cluster cluster;
  cluster.lose_telemetry(6, true);
  Comm& a = cluster.add_comm({5, 6});
  Comm& b = cluster.add_comm({6, 7});
  a.rounds(20);
  b.rounds(20);
  HangPlan without_second, without_first;
  without_second.not_called = {1};
  without_first.not_called = {0};
  a.hang(without_second);
  b.hang(without_first);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].condition == Condition::never_heard);
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("A chain of communicators ends at the process that waits for nobody") {
  Cluster cluster;
  Comm& a = cluster.add_comm({0, 1});
  Comm& b = cluster.add_comm({1, 2});
  Comm& c = cluster.add_comm({2, 3});
  for (Comm* comm : {&a, &b, &c}) comm->rounds(20);
  HangPlan second_absent;
  second_absent.not_called = {1};
  a.hang(second_absent);  // 0 waits for 1
  b.hang(second_absent);  // 1 waits for 2
  c.hang(second_absent);  // 2 waits for 3
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == c.uid());
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].culprits[0].pid == 103);
}

TEST_CASE("Communicators entered in different orders are one inconsistency with the cycle's processes as candidates") {
  Cluster cluster;
  Comm& a = cluster.add_comm({0, 1});
  Comm& b = cluster.add_comm({0, 1});
  a.rounds(20);
  b.rounds(20);
  HangPlan without_0, without_1;
  without_0.not_called = {0};
  without_1.not_called = {1};
  a.hang(without_1);  // process 0 is in a
  b.hang(without_0);  // process 1 is in b
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h2_inconsistent);
  CHECK(open[0].culprits.empty());
  CHECK(ranks_of(open[0].candidates) == std::set<int>{0, 1});
  REQUIRE(open[0].cycle.size() == 2);
  const CycleStep& one = open[0].cycle[0];
  const CycleStep& two = open[0].cycle[1];
  CHECK(std::set<CommUid>{one.comm, two.comm} == std::set<CommUid>{a.uid(), b.uid()});
  for (const CycleStep& step : open[0].cycle) {
    CHECK(step.pid == (step.comm == a.uid() ? 100u : 101u));
    CHECK(step.rank.value == (step.comm == a.uid() ? 0 : 1));
    CHECK(step.waits_for.value == (step.comm == a.uid() ? 1 : 0));
    CHECK(step.op == OpSeq{21});
  }
}

TEST_CASE("Three communicators entered in a ring of orders are one circle, whoever waits for it besides") {
  Cluster cluster;
  Comm& a = cluster.add_comm({0, 1});
  Comm& b = cluster.add_comm({1, 2});
  Comm& c = cluster.add_comm({2, 0});
  Comm& outside = cluster.add_comm({0, 5, 6});
  for (Comm* comm : {&a, &b, &c, &outside}) comm->rounds(20);
  HangPlan first_only, without_0;
  first_only.not_called = {1};
  without_0.not_called = {0};
  for (Comm* comm : {&a, &b, &c}) comm->hang(first_only);  // 0 waits for 1, 1 for 2, 2 for 0
  outside.hang(without_0);
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h2_inconsistent);
  CHECK(open[0].cycle.size() == 3);
  CHECK(open[0].victim_comms.size() == 3);
}

TEST_CASE("A circle that has a way out is no circle: who is outside of it is the cause") {
  Cluster cluster;
  Comm& a = cluster.add_comm({0, 1});
  Comm& b = cluster.add_comm({0, 1});
  Comm& c = cluster.add_comm({1, 4});
  for (Comm* comm : {&a, &b, &c}) comm->rounds(20);
  HangPlan without_0, without_1;
  without_0.not_called = {0};
  without_1.not_called = {1};
  a.hang(without_1);
  b.hang(without_0);  // launched ahead on another stream
  c.hang(without_1);  // process 1 waits here for process 4
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  CHECK(open[0].comm == c.uid());
  CHECK(open[0].culprits[0].pid == 104);
  CHECK(open[0].victim_comms.size() == 2);
}

TEST_CASE("Of the absent ranks only those that wait for nobody are named; what holds the others has its own incident") {
  Cluster cluster;
  Comm& a = cluster.add_comm({0, 1, 2, 3});
  Comm& b = cluster.add_comm({2, 5});
  a.rounds(20);
  b.rounds(20);
  HangPlan two_absent, second_absent;
  two_absent.not_called = {1, 2};
  second_absent.not_called = {1};
  a.hang(two_absent);     // process 1 is idle, process 2 is inside b
  b.hang(second_absent);  // and waits for process 5
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 2);
  for (const Incident& i : open) {
    REQUIRE(i.culprits.size() == 1);
    CHECK(i.culprits[0].pid == (i.comm == a.uid() ? 101u : 105u));
  }
}

TEST_CASE("A process that is busy on another communicator is told from one that waits") {
  Cluster cluster;
  Comm& all = cluster.add_comm({0, 1, 2, 3});
  Comm& pair = cluster.add_comm({3, 4});
  all.rounds(20);
  pair.rounds(20);
  HangPlan plan;
  plan.not_called = {3};
  all.hang(plan);
  pair.rounds(2000);  // 28 s of work that the others wait for
  CHECK(cluster.reported().empty());
  cluster.run_s(12);  // and then it does nothing any more
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == all.uid());
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3});
  CHECK(std::any_of(open[0].evidence.begin(), open[0].evidence.end(), [](const Evidence& e) {
    return e.kind == EvidenceKind::last_moved_elsewhere && e.rank == 3;
  }));
}

TEST_CASE("But not for ever: it may have skipped what the others wait in") {
  Cluster cluster;
  Comm& all = cluster.add_comm({0, 1, 2, 3});
  Comm& pair = cluster.add_comm({3, 4});
  all.rounds(20);
  pair.rounds(20);
  HangPlan plan;
  plan.not_called = {3};
  all.hang(plan);
  pair.rounds(5500);
  const auto open = cluster.open_incidents();
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3});
}

TEST_CASE("What is noticed first at a victim ends up as one incident at the cause") {
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({3, 7});
  tensor.rounds(20);
  data.rounds(20);
  cluster.run_s(1);
  HangPlan waits, broken;
  waits.not_called = {0};
  broken.channels[0].stop_after[1] = 6;
  data.hang(waits);
  tensor.hang(broken);
  for (int p : {0, 1, 2, 3}) cluster.lose_telemetry(p, true);  // of their hang nothing is heard for a while
  cluster.run_s(9);
  REQUIRE(cluster.open_incidents().size() == 1);
  CHECK(cluster.open_incidents()[0].comm == data.uid());
  for (int p : {0, 1, 2, 3}) cluster.lose_telemetry(p, false);
  cluster.run_s(10);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(cluster.incidents().size() == 1);  // the same one
  CHECK(open[0].comm == tensor.uid());
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(open[0].victim_comms.size() == 1);
}

TEST_CASE("A barrier that lasts long alarms no sooner through those who wait for its ranks elsewhere") {
  Cluster cluster;
  Comm& barrier = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({3, 7});
  barrier.rounds(20);
  data.rounds(20);
  HangPlan long_barrier, waits;
  long_barrier.signature = fake::all_reduce(1);
  long_barrier.not_called = {0};
  waits.not_called = {0};
  barrier.hang(long_barrier);
  data.hang(waits);
  cluster.run_s(55);
  CHECK(cluster.reported().empty());
  cluster.run_s(10);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == barrier.uid());
  CHECK(ranks_of(open[0].culprits) == std::set<int>{0});
}

TEST_CASE("A victim that goes on after its cause has ended is no incident of its own") {
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({3, 7});
  tensor.rounds(20);
  data.rounds(20);
  HangPlan absent, waits;
  absent.not_called = {1};
  waits.not_called = {0};
  tensor.hang(absent);
  data.hang(waits);
  cluster.run_s(30);
  REQUIRE(cluster.open_incidents().size() == 1);
  tensor.recover();
  tensor.rounds(200);  // process 3 has work to do before it comes to the data communicator
  cluster.run_s(3);
  data.recover();
  data.rounds(20);
  tensor.rounds(20);
  cluster.run_s(2);
  CHECK(cluster.open_incidents().empty());
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("A host that falls silent is one cause, on however many communicators it is missed") {
  Cluster cluster;
  std::vector<Comm*> data;
  for (int i = 0; i < 4; ++i) data.push_back(&cluster.add_comm({i, 4 + i}));
  for (Comm* comm : data) comm->rounds(20);
  cluster.run_s(1);
  for (int p : {4, 5, 6, 7}) cluster.silence_process(p);
  HangPlan second_absent;
  second_absent.not_called = {1};
  for (Comm* comm : data) comm->hang(second_absent);
  cluster.run_s(15);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].culprits[0].component == Component::host);
  CHECK(open[0].culprits[0].host == "node1");
  CHECK(open[0].victim_comms.size() == 3);
}

TEST_CASE("While a host falls silent process by process, nobody is accused for what was said before") {
  Cluster cluster;
  Comm& world = cluster.add_comm_of_all();
  Comm& first = cluster.add_comm({1, 5});
  Comm& second = cluster.add_comm({2, 6});
  for (Comm* comm : {&world, &first, &second}) comm->rounds(20);
  cluster.run_s(1);
  HangPlan some_absent, second_behind;
  some_absent.not_called = {4, 7};
  second_behind.launched_only = {1};  // its GPU is in the world's operation, as it says for a while
  world.hang(some_absent);
  first.hang(second_behind);
  second.hang(second_behind);
  for (int p : {4, 7}) cluster.silence_process(p);
  cluster.run_s(0.2);
  cluster.silence_process(5);
  cluster.run_s(0.4);
  cluster.silence_process(6);
  cluster.run_s(15);
  const auto open = cluster.open_incidents();
  INFO(text(cluster.incidents()));
  REQUIRE(open.size() == 1);
  CHECK(cluster.incidents().size() == 1);
  for (const Culprit& c : open[0].culprits) {
    CHECK(c.component == Component::host);
    CHECK(c.host == "node1");
  }
  for (const Incident& i : cluster.reported())
    for (const Culprit& c : i.culprits) CHECK(c.component != Component::gpu);
}

TEST_CASE("Who waits for a process that may be silent is not accused where others wait for him") {
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({1, 5});
  for (Comm* comm : {&tensor, &data}) comm->rounds(20);
  cluster.run_s(1);
  HangPlan absent, behind;
  absent.not_called = {3};
  behind.launched_only = {0};  // its GPU is in the tensor group's operation
  tensor.hang(absent);
  data.hang(behind);
  cluster.run_s(0.9);  // it has spoken since
  cluster.silence_process(3);
  cluster.run_s(15);
  INFO(text(cluster.incidents()));
  REQUIRE(cluster.incidents().size() == 1);
  const auto open = cluster.open_incidents();
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == tensor.uid());
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3});
  for (const Incident& i : cluster.reported())
    for (const Culprit& c : i.culprits) CHECK(c.component != Component::gpu);
}

TEST_CASE("A process that was lost is one cause, reported where it was inside") {
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1, 2, 3});
  Comm& data = cluster.add_comm({1, 5});
  tensor.rounds(20);
  data.rounds(20);
  cluster.run_s(1);
  HangPlan broken, waits;
  broken.channels[0].stop_after[1] = broken.channels[1].stop_after[1] = 6;
  waits.not_called = {0};
  tensor.hang(broken);
  data.hang(waits);
  cluster.stop_process(1);
  cluster.run_s(6);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == tensor.uid());
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1});
  CHECK(open[0].culprits[0].component == Component::process);
  CHECK(open[0].victim_comms.size() == 1);
}

TEST_CASE("A process that is absent in several places is reported where it usually goes on") {
  Cluster cluster;
  Comm& first = cluster.add_comm({0, 1});
  Comm& second = cluster.add_comm({0, 2});
  Comm& third = cluster.add_comm({0, 3});
  for (int i = 0; i < 8; ++i)
    for (Comm* comm : {&first, &second, &third}) comm->rounds(1);
  first.rounds(1);
  cluster.run_s(1);
  HangPlan without_0;
  without_0.not_called = {0};
  third.hang(without_0);  // whoever happens to be there first
  cluster.run_s(0.5);
  first.hang(without_0);
  second.hang(without_0);
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].comm == second.uid());
  CHECK(open[0].culprits[0].pid == 100);
  CHECK(open[0].victim_comms.size() == 2);
}

TEST_CASE("A network device that stops several communicators is one cause, whomever it is to reach in each of them") {
  // Two to a node: process 1 is followed by process 2 in one ring and by process 6 in the other.
  Cluster cluster(Settings{}, ClusterOptions{8, 2});
  Comm& all = cluster.add_comm_of_all();
  Comm& some = cluster.add_comm({0, 1, 6, 7});
  for (Comm* comm : {&all, &some}) comm->rounds(20);
  HangPlan plan;
  plan.nic_stuck = {1};
  for (int c : {0, 1}) plan.channels[c].cut.insert({1, 2}), plan.channels[c].cut_after = 2;
  all.hang(plan);
  some.hang(plan);
  cluster.run_s(20);
  const auto reported = cluster.incidents();
  INFO(text(reported));
  REQUIRE(reported.size() == 1);
  CHECK(reported[0].fault == FaultClass::h3_hardware);
  REQUIRE(reported[0].culprits.size() == 1);
  CHECK(reported[0].culprits[0].component == Component::nic);
  CHECK(reported[0].culprits[0].pid == 101);
  REQUIRE(reported[0].victim_comms.size() == 1);
  CHECK(reported[0].victim_comms[0].comm == (reported[0].comm == all.uid() ? some : all).uid());
}

TEST_CASE("A rank that others wait for is not certain to be stuck while it moves elsewhere, for twice the time") {
  Cluster cluster;
  Comm& all = cluster.add_comm_of_all();
  Comm& some = cluster.add_comm({4, 5});
  all.rounds(20);
  some.rounds(20);
  HangPlan plan;
  plan.not_called = {4, 5};
  all.hang(plan);
  const auto moves_for_s = [&](int seconds) {
    for (int second = 0; second < seconds; ++second) {
      some.rounds(1);
      cluster.run_s(1);
    }
    INFO(text(cluster.incidents()));
    REQUIRE(cluster.open_incidents().size() == 1);
    CHECK(ranks_of(cluster.open_incidents()[0].culprits) == std::set<int>{4, 5});
    return cluster.open_incidents()[0].state;
  };
  CHECK(moves_for_s(350) == VerdictState::suspected);
  SECTION("they move no more") {
    cluster.run_s(305);
    CHECK(cluster.open_incidents()[0].state == VerdictState::confirmed);
  }
  SECTION("they go on") { CHECK(moves_for_s(260) == VerdictState::confirmed); }
}

TEST_CASE("Two hangs with separate causes are two incidents") {
  Cluster cluster;
  Comm& a = cluster.add_comm({0, 1, 2, 3});
  Comm& b = cluster.add_comm({4, 5, 6, 7});
  a.rounds(20);
  b.rounds(20);
  HangPlan plan;
  plan.not_called = {2};
  a.hang(plan);
  b.hang(plan);
  cluster.run_s(12);
  CHECK(cluster.open_incidents().size() == 2);
}

TEST_CASE("Of more absent ranks than are described the one that the others wait for is still named") {
  ClusterOptions options;
  options.processes = 80;
  Cluster cluster({}, options);
  Comm& world = cluster.add_comm_of_all();
  std::vector<int> most(76);
  std::iota(most.begin(), most.end(), 0);
  Comm& data = cluster.add_comm(most);
  world.rounds(20);
  data.rounds(20);
  HangPlan world_waits, data_waits;
  for (int r : most) world_waits.not_called.insert(r);
  data_waits.not_called = {75};
  data_waits.loops = 400;  // nobody ends it without that one
  world.hang(world_waits);
  cluster.run_s(0.5);
  data.hang(data_waits);
  cluster.run_s(12);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h1_not_entered);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].pid == 175);
  CHECK(open[0].culprits[0].component == Component::application);
  CHECK(open[0].candidates.empty());
}

namespace {

// Symmetric kernels of a tensor group {0, 1}, with data parallel groups {0, 4} and {1, 5}.
struct SymmetricTensorGroup {
  SymmetricTensorGroup() {
    for (Comm* c : {&tensor, &data, &other_data}) c->rounds(20);
  }
  // The process hands over so many operations of the tensor group of which nothing is measured.
  void hands_over(int process, uint64_t operations) {
    Rounds m;
    m.comm = tensor.uid();
    m.rank = Rank{process};
    for (uint64_t i = 1; i <= operations; ++i) {
      Round& r = m.rounds.emplace_back();
      r.op = OpSeq{tensor.op() + i};
      r.signature = fake::all_reduce(1 << 16, abi::Algorithm::symmetric);
      r.signature.flags = abi::op_no_kernel;
      r.flags = round_no_kernel | round_not_measured;
      r.signals = 0;
    }
    cluster.send(process, {m});
  }
  static void misses_first(Comm& comm) {
    HangPlan plan;
    plan.not_called = {0};
    comm.hang(plan);
  }
  const Incident* open_on(const Comm& comm) {
    open = cluster.open_incidents();
    for (const Incident& i : open)
      if (i.comm == comm.uid()) return &i;
    return nullptr;
  }
  Cluster cluster;
  Comm& tensor = cluster.add_comm({0, 1});
  Comm& data = cluster.add_comm({0, 4});
  Comm& other_data = cluster.add_comm({1, 5});
  std::vector<Incident> open;
};

}  // namespace

TEST_CASE(
    "Who may wait in an operation that nobody sees is no culprit: who has not called that one is, where it is missed") {
  SymmetricTensorGroup job;
  job.hands_over(0, 1);
  job.misses_first(job.data);
  SECTION("in another communicator: both stall because of it") {
    job.misses_first(job.other_data);
    job.cluster.run_s(20);
    INFO(text(job.cluster.incidents()));
    REQUIRE(job.cluster.open_incidents().size() == 1);
    const Incident* const i = job.open_on(job.other_data);
    REQUIRE(i);
    REQUIRE(i->culprits.size() == 1);
    CHECK(i->culprits[0].pid == 101);
    REQUIRE(i->victim_comms.size() == 1);
    CHECK(i->victim_comms[0].comm == job.data.uid());
  }
  SECTION("nowhere else: it is a candidate") {
    job.cluster.run_s(400);
    INFO(text(job.cluster.incidents()));
    const Incident* const i = job.open_on(job.data);
    REQUIRE(i);
    CHECK(i->culprits.empty());
    CHECK(ranks_of(i->candidates) == std::set<int>{0});
  }
}

TEST_CASE("Where all have called an operation that nobody sees and none is seen to wait, it may be what stands") {
  SymmetricTensorGroup job;
  job.hands_over(0, 1);
  job.hands_over(1, 1);
  job.misses_first(job.data);
  job.misses_first(job.other_data);
  job.cluster.run_s(400);
  INFO(text(job.cluster.incidents()));
  for (const Comm* comm : {&job.data, &job.other_data}) {
    const Incident* const i = job.open_on(*comm);
    REQUIRE(i);
    CHECK(i->culprits.empty());
    CHECK(ranks_of(i->candidates) == std::set<int>{0});
  }
}

TEST_CASE("Who has called fewer of the operations that nobody sees than others is the culprit") {
  SymmetricTensorGroup job;
  job.hands_over(0, 1);
  job.hands_over(1, 2);
  job.misses_first(job.data);
  job.cluster.run_s(20);
  INFO(text(job.cluster.incidents()));
  const Incident* const i = job.open_on(job.data);
  REQUIRE(i);
  REQUIRE(i->culprits.size() == 1);
  CHECK(i->culprits[0].pid == 100);
}

}  // namespace ccld::decision
