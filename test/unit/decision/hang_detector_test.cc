#include "decision/detect/hang.h"

#include <catch2/catch.hpp>

#include <algorithm>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::HangPlan;

namespace {

HangPlan absent(int rank, uint64_t count = 1 << 16) {
  HangPlan plan;
  plan.signature = fake::all_reduce(count);
  plan.not_called = {rank};
  return plan;
}

}  // namespace

TEST_CASE("A job whose ranks are merely idle never alarms") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  cluster.run_s(1000);
  CHECK(cluster.reported().empty());
}

TEST_CASE("The first operations have their own, longer threshold") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.hang(absent(3));
  cluster.run_s(55);
  CHECK(cluster.reported().empty());
  comm.recover();
  comm.rounds(20);
  cluster.run_s(1);
  // And no timeout is learnt from them.
  comm.hang(absent(3));
  cluster.run_s(8);
  CHECK(cluster.open_incidents().size() == 1);
}

TEST_CASE("A barrier has its own, longer threshold, and hangs there too") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  comm.hang(absent(3, 1));
  cluster.run_s(58);
  CHECK(cluster.reported().empty());
  cluster.run_s(5);
  REQUIRE(cluster.open_incidents().size() == 1);
  CHECK(ranks_of(cluster.open_incidents()[0].culprits) == std::set<int>{3});
}

TEST_CASE("Certainty without hard evidence takes at least twice as long as suspicion") {
  Settings settings;
  settings.hang_confirm_s = 10;
  Cluster cluster(settings);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  comm.hang(absent(3, 1));  // a barrier: suspected after 60 s
  cluster.run_s(118);
  CHECK(ever(cluster, VerdictState::suspected));
  CHECK_FALSE(ever(cluster, VerdictState::confirmed));
  cluster.run_s(5);
  CHECK(ever(cluster, VerdictState::confirmed));
}

TEST_CASE("A communicator that pauses regularly teaches its own timeout") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  for (int i = 0; i < 3; ++i) {
    comm.hang(absent(0));  // rank 0 writes a checkpoint while the others wait
    cluster.run_s(4);
    comm.recover();
    comm.rounds(20);
  }
  comm.hang(absent(0));
  cluster.run_s(8);  // longer than hang_suspect_s, less than three times the usual pause
  comm.recover();
  comm.rounds(20);
  CHECK(cluster.reported().empty());
}

TEST_CASE("A fault that ends by itself teaches no timeout, neither its communicator nor those that wait for it") {
  const bool frozen = GENERATE(true, false), own = GENERATE(true, false);
  CAPTURE(frozen, own);
  Cluster cluster;
  Comm& world = cluster.add_comm_of_all();
  Comm& pair = cluster.add_comm({0, 1});
  world.rounds(20);
  pair.rounds(20);
  cluster.run_s(1);
  HangPlan fault = absent(3);
  if (frozen) {
    fault.not_called.clear();
    fault.channels[0].stop_after[3] = 2;
  } else {
    cluster.stop_process(3);
  }
  HangPlan behind = absent(1, 1 << 12);  // rank 1 is inside the operation of all that hangs
  world.hang(fault);
  pair.hang(behind);
  cluster.run_s(40);
  REQUIRE(cluster.open_incidents().size() == 1);
  cluster.continue_process(3);
  world.recover();
  world.rounds(20);
  cluster.run_s(1);
  pair.recover();
  pair.rounds(20);
  cluster.run_s(2);
  REQUIRE(cluster.open_incidents().empty());
  if (own)
    world.hang(absent(5));
  else
    pair.hang(behind);
  cluster.run_s(8);
  CHECK(cluster.open_incidents().size() == 1);
}

TEST_CASE("A pause that outlasts the threshold is at most a suspicion, which resolves by itself") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  comm.hang(absent(0));
  cluster.run_s(60);
  comm.recover();
  comm.rounds(20);
  cluster.run_s(1);
  CHECK_FALSE(ever(cluster, VerdictState::confirmed));
  CHECK(cluster.open_incidents().empty());
}

TEST_CASE("A checkpoint that takes longer than a hang may is confirmed as one once, and not the next time") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  for (const bool first : {true, false}) {
    const size_t before = cluster.reported().size();
    comm.hang(absent(0));
    cluster.run_s(400);
    comm.recover();
    comm.rounds(20);
    cluster.run_s(1);
    CHECK(cluster.open_incidents().empty());
    CHECK(std::any_of(cluster.reported().begin() + static_cast<std::ptrdiff_t>(before), cluster.reported().end(),
                      [](const Incident& i) { return i.state == VerdictState::confirmed; }) == first);
  }
}

TEST_CASE("If the service hears nobody, nobody is accused") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  comm.hang(absent(2));
  cluster.run_s(2);
  cluster.silence_all();
  cluster.run_s(500);
  CHECK(cluster.reported().empty());
}

TEST_CASE("A process whose telemetry is lost while training goes on does not alarm, not even when the job goes idle") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  cluster.lose_telemetry(3, true);
  comm.rounds(2000);
  cluster.run_s(400);
  CHECK(cluster.reported().empty());
}

TEST_CASE("A dead process confirms a hang only after nothing has moved for a moment") {
  Settings settings;
  settings.hard_evidence_s = 3;
  Cluster cluster(settings);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(20);
  cluster.kill_process(1);
  comm.hang(absent(1));
  cluster.run_s(2.5);
  CHECK(cluster.reported().empty());
  cluster.run_s(3);
  CHECK(ever(cluster, VerdictState::confirmed));
}

TEST_CASE("Processes that end in good order do not alarm") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(50);
  for (int r = 0; r < 8; ++r) {
    comm.leave(r);
    cluster.run_s(0.5);
    cluster.kill_process(r);
  }
  cluster.run_s(100);
  CHECK(cluster.reported().empty());
}

TEST_CASE("One process leaves cleanly and the others go idle: no alarm") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(50);
  comm.leave(4);
  cluster.run_s(1);
  cluster.kill_process(4);
  cluster.run_s(400);
  CHECK(cluster.reported().empty());
}

}  // namespace ccld::decision
