#include "decision/locate/across.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
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

}  // namespace ccld::decision
