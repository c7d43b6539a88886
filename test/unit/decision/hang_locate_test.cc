#include "decision/locate/hang.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::HangPlan;

namespace {

Comm& healthy_job(Cluster& cluster, abi::Algorithm algorithm = abi::Algorithm::ring) {
  Comm& comm = cluster.add_comm_of_all(algorithm);
  comm.rounds(30);
  return comm;
}

Incident only_open(const Cluster& cluster) {
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  return open[0];
}

}  // namespace

TEST_CASE("A rank that does not call the operation is named within the suspicion threshold and confirmed at its time") {
  const auto algorithm = GENERATE(abi::Algorithm::ring, abi::Algorithm::tree);
  Cluster cluster;
  Comm& comm = healthy_job(cluster, algorithm);
  HangPlan plan;
  plan.not_called = {5};
  comm.hang(plan);
  cluster.run_s(4);
  CHECK(cluster.reported().empty());
  cluster.run_s(4);
  Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h1_not_entered);
  CHECK(i.state == VerdictState::suspected);
  CHECK(ranks_of(i.culprits) == std::set<int>{5});
  CHECK(i.culprits[0].component == Component::application);
  CHECK(i.op == OpSeq{comm.op()});
  CHECK(i.victim_count == 7);
  CHECK(i.culprits[0].host == "node1");
  CHECK(i.culprits[0].pid == 105);
  CHECK(i.located_ns >= i.onset_ns);
  cluster.run_s(295);
  i = only_open(cluster);
  CHECK(i.state == VerdictState::confirmed);
  CHECK((i.confirmed_ns - i.onset_ns) / ns_per_s >= 299);
}

TEST_CASE("Several absent ranks are all named, each with how far it came") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.not_called = {1};
  plan.called_only = {3};
  plan.launched_only = {6};
  comm.hang(plan);
  cluster.run_s(8);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h1_not_entered);
  REQUIRE(ranks_of(i.culprits) == std::set<int>{1, 3, 6});
  CHECK(i.culprits[0].reason.find("did not call") != std::string::npos);
  CHECK(i.culprits[1].reason.find("did not launch") != std::string::npos);
  CHECK(i.culprits[2].reason.find("never started") != std::string::npos);
  CHECK(i.culprits[2].component == Component::gpu);
}

TEST_CASE("A process that is stopped before the operation is confirmed at once") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.not_called = {2};
  cluster.stop_process(2);
  comm.hang(plan);
  cluster.run_s(4);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h1_not_entered);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(i.culprits[0].component == Component::process);
  CHECK(i.culprits[0].reason.find("stopped") != std::string::npos);
}

TEST_CASE("A dead process is the cause of ranks that merely wait for it elsewhere") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.not_called = {2, 3};
  cluster.kill_process(2);
  comm.hang(plan);
  cluster.run_s(8);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(ranks_of(i.candidates) == std::set<int>{3});
  CHECK(i.state == VerdictState::confirmed);
}

TEST_CASE("A stopped process that is continued lets the incident resolve") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.not_called = {2};
  cluster.stop_process(2);
  comm.hang(plan);
  cluster.run_s(6);
  REQUIRE(only_open(cluster).state == VerdictState::confirmed);
  cluster.continue_process(2);
  comm.recover();
  comm.rounds(20);
  cluster.run_s(2);
  CHECK(cluster.open_incidents().empty());
  CHECK(ever(cluster, VerdictState::resolved));
}

TEST_CASE("A rank that is silent when others wait for it is named as silent, not confirmed at once") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.not_called = {4};
  comm.hang(plan);
  cluster.silence_process(4);
  cluster.run_s(12);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(ranks_of(i.culprits) == std::set<int>{4});
  CHECK(i.culprits[0].component == Component::process);
  CHECK(i.state == VerdictState::suspected);
}

TEST_CASE("A rank that aborted the communicator is the culprit for those that stay inside") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  comm.leave(7, abi::CommState::aborted);
  HangPlan plan;
  plan.not_called = {7};
  comm.hang(plan);
  cluster.run_s(8);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h1_not_entered);
  CHECK(ranks_of(i.culprits) == std::set<int>{7});
  CHECK(i.state == VerdictState::confirmed);
}

TEST_CASE("If all launched and no kernel started, nobody is singled out") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.launched_only = {0, 1, 2, 3, 4, 5, 6, 7};
  comm.hang(plan);
  // Nobody waits inside: all GPUs may be busy with what comes before.
  cluster.run_s(50);
  CHECK(cluster.open_incidents().empty());
  cluster.run_s(15);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.culprits.empty());
  CHECK(i.candidates.size() == 8);
}

}  // namespace ccld::decision
