#include "decision/locate/walk.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Breakage;
using fake::Cluster;
using fake::Comm;
using fake::HangPlan;

namespace {

Comm& healthy_job(Cluster& cluster, abi::Algorithm algorithm) {
  Comm& comm = cluster.add_comm_of_all(algorithm);
  fake::RoundShape shape;
  shape.signature = fake::all_reduce(1 << 16, algorithm);
  comm.rounds(30, shape);
  return comm;
}

HangPlan plan_of(abi::Algorithm algorithm) {
  HangPlan plan;
  plan.signature = fake::all_reduce(1 << 16, algorithm);
  return plan;
}

}  // namespace

TEST_CASE("A frozen channel names the rank's GPU and the channel, wherever it freezes, in rings and trees") {
  const auto algorithm = GENERATE(abi::Algorithm::ring, abi::Algorithm::tree);
  const int rank = GENERATE(range(0, 8));
  const int after = GENERATE(0, 1, 9, 20);
  const bool vague = GENERATE(false, true);
  Cluster cluster;
  Comm& comm = healthy_job(cluster, algorithm);
  HangPlan plan = plan_of(algorithm);
  plan.channels[1].stop_after[rank] = after;
  plan.vague_waits = vague;
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO("rank " << rank << " after " << after << (algorithm == abi::Algorithm::tree ? " tree" : " ring")
               << (vague ? " vague" : "") << '\n'
               << text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{rank});
  CHECK(open[0].culprits[0].component == Component::gpu);
  CHECK(open[0].culprits[0].channel == 1);
}

TEST_CASE("Steps that wrap around zero are compared as distances") {
  const auto algorithm = GENERATE(abi::Algorithm::ring, abi::Algorithm::tree);
  const uint32_t first = GENERATE(0xfffffff0u, 0xffffffffu, 0x7ffffff8u);
  Cluster cluster;
  Comm& comm = healthy_job(cluster, algorithm);
  comm.set_first_step(first);
  HangPlan plan = plan_of(algorithm);
  plan.channels[0].stop_after[5] = 12;
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{5});
  CHECK(open[0].culprits[0].channel == 0);
}

TEST_CASE("A cut link between nodes names the edge with both ends") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  for (int c : {0, 1}) plan.channels[c].cut.insert({3, 4});
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].state == VerdictState::confirmed);
  REQUIRE(open[0].culprits.size() == 1);
  const Culprit& c = open[0].culprits[0];
  CHECK(c.rank == Rank{3});
  CHECK(c.peer == Rank{4});
  CHECK(c.component == Component::link);
  CHECK(c.net_name == "net0");
  CHECK(c.channel == -1);
}

TEST_CASE("A link that is cut in both directions names both edges and nothing else") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  for (int c : {0, 1}) plan.channels[c].cut = {{3, 4}, {7, 0}};
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3, 7});
}

TEST_CASE("A cut link in a tree names the edge that crosses the nodes") {
  // Depth-first: rank 1 of node 0 has children 3 (node 0) and 4 (node 1).
  const bool downwards = GENERATE(false, true);
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::tree);
  HangPlan plan = plan_of(abi::Algorithm::tree);
  const std::pair<int, int> edge = downwards ? std::pair{1, 4} : std::pair{4, 1};
  for (int c : {0, 1}) plan.channels[c].cut.insert(edge);
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].rank == Rank{edge.first});
  CHECK(open[0].culprits[0].peer == Rank{edge.second});
}

TEST_CASE("A proxy that has stopped is told from the wire behind it") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  plan.proxy_stuck = {3};
  for (int c : {0, 1}) {
    plan.channels[c].cut.insert({3, 4});
    plan.channels[c].cut_after = 2;
  }
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  REQUIRE(open[0].culprits.size() == 1);
  CHECK(open[0].culprits[0].rank == Rank{3});
  CHECK(open[0].culprits[0].component == Component::proxy);
}

TEST_CASE("A step that was posted within a node and is not seen leaves both GPUs as candidates") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  for (int c : {0, 1}) plan.channels[c].cut.insert({1, 2});
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].culprits.empty());
  CHECK(ranks_of(open[0].candidates) == std::set<int>{1, 2});
}

TEST_CASE("A process that is stopped inside the operation is a hardware-class fault of that process") {
  const auto algorithm = GENERATE(abi::Algorithm::ring, abi::Algorithm::tree);
  Cluster cluster;
  Comm& comm = healthy_job(cluster, algorithm);
  HangPlan plan = plan_of(algorithm);
  for (int c : {0, 1}) plan.channels[c].stop_after[6] = 5;
  comm.hang(plan);
  cluster.stop_process(6);  // it never gets to say that it entered
  cluster.run_s(4);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{6});
  CHECK(open[0].culprits[0].component == Component::process);
}

TEST_CASE("A process that falls silent inside the operation is named, and not confirmed before its time") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  for (int c : {0, 1}) plan.channels[c].stop_after[6] = 5;
  comm.hang(plan);
  cluster.silence_process(6);
  cluster.run_s(30);
  auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{6});
  CHECK(open[0].state == VerdictState::suspected);
  cluster.run_s(290);
  open = cluster.open_incidents();
  REQUIRE(open.size() == 1);
  CHECK(open[0].state == VerdictState::confirmed);
}

TEST_CASE("A host that falls silent as a whole is named as a host") {
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  for (int c : {0, 1})
    for (int r : {4, 5, 6, 7}) plan.channels[c].stop_after[r] = 4;
  comm.hang(plan);
  for (int p : {4, 5, 6, 7}) cluster.silence_process(p);
  cluster.run_s(30);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  REQUIRE_FALSE(open[0].culprits.empty());
  CHECK(open[0].culprits[0].component == Component::host);
  for (int r : ranks_of(open[0].culprits)) CHECK(r >= 4);
}

}  // namespace ccld::decision
