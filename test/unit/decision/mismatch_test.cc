#include "decision/locate/mismatch.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::HangPlan;
using fake::RoundShape;

namespace {

RoundShape one_differs(int rank, std::function<void(Signature&)> change) {
  RoundShape shape;
  shape.signature_of = [=](int r, uint64_t) {
    Signature s = fake::all_reduce();
    if (r == rank) change(s);
    return s;
  };
  return shape;
}

Incident only(const Cluster& cluster) {
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  return open[0];
}

}  // namespace

TEST_CASE("A mismatch that does not hang is confirmed at once and names the minority and the field") {
  struct Change {
    const char* field;
    std::function<void(Signature&)> apply;
  };
  const int which = GENERATE(range(0, 6));
  const std::vector<Change> changes = {
      {"count", [](Signature& s) { s.count /= 2; }},
      {"function", [](Signature& s) { s.function = abi::Function::all_gather; }},
      {"datatype", [](Signature& s) { s.datatype = abi::Datatype::int32; }},
      {"reduction", [](Signature& s) { s.reduction = abi::Reduction::max; }},
      {"root", [](Signature& s) { s.root = 3; }},
      {"protocol", [](Signature& s) { s.protocol = abi::Protocol::ll; }},
  };
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(40);
  const uint64_t op = comm.op() + 1;
  comm.rounds(1, one_differs(2, changes[which].apply));
  comm.rounds(200);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h2_inconsistent);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(i.op == OpSeq{op});
  CHECK(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(i.culprits[0].reason.find(changes[which].field) != std::string::npos);
  CHECK((i.confirmed_ns - i.onset_ns) < 3 * ns_per_s);
}

TEST_CASE("Further mismatches of the same rank are the same incident, and so is the hang that follows") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(40);
  comm.rounds(10, one_differs(2, [](Signature& s) { s.count /= 2; }));
  HangPlan plan;
  plan.channels[0].stop_after[2] = 4;
  comm.hang(plan);
  cluster.run_s(60);
  const Incident i = only(cluster);
  CHECK(i.fault == FaultClass::h2_inconsistent);
  CHECK(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("A tie between a rank that was inconsistent before and another one is the same incident") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(40);
  comm.rounds(1, one_differs(2, [](Signature& s) { s.count /= 2; }));
  HangPlan plan;  // only two ranks get so far
  plan.not_called = {0, 1, 3, 4, 6, 7};
  plan.signature_of = [](int r) {
    Signature s = fake::all_reduce();
    if (r == 2) s.count = 7;
    return s;
  };
  comm.hang(plan);
  cluster.run_s(60);
  CHECK(ranks_of(only(cluster).culprits) == std::set<int>{2});
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("A mismatch is found in operations that hang and never become rounds") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(40);
  HangPlan plan;
  plan.signature_of = [](int r) {
    Signature s = fake::all_reduce();
    if (r == 6) s.count = 7;
    return s;
  };
  plan.channels[0].stop_after[6] = 4;
  plan.channels[1].stop_after[6] = 4;
  comm.hang(plan);
  cluster.run_s(10);
  const Incident i = only(cluster);
  CHECK(i.fault == FaultClass::h2_inconsistent);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
}

TEST_CASE("Two ranks that disagree are both candidates") {
  fake::ClusterOptions options;
  options.processes = 2;
  Cluster cluster({}, options);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(40);
  comm.rounds(1, one_differs(1, [](Signature& s) { s.count /= 2; }));
  cluster.run_s(5);
  const Incident i = only(cluster);
  CHECK(i.culprits.empty());
  CHECK(ranks_of(i.candidates) == std::set<int>{0, 1});
  CHECK(i.confidence <= 0.5);
}

TEST_CASE("Of two candidates the one is named that differs again, once a third rank is heard") {
  fake::ClusterOptions options;
  options.processes = 3;
  Cluster cluster({}, options);
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(40);
  const OpSeq first{comm.op() + 1};
  const RoundShape differs = one_differs(1, [](Signature& s) { s.count /= 2; });
  cluster.lose_telemetry(0, true);
  comm.rounds(1, differs);
  cluster.run_s(5);
  REQUIRE(ranks_of(only(cluster).candidates) == std::set<int>{1, 2});
  cluster.lose_telemetry(0, false);
  comm.rounds(2, differs);
  cluster.run_s(5);
  const Incident i = only(cluster);
  CHECK(ranks_of(i.culprits) == std::set<int>{1});
  CHECK(i.candidates.empty());
  CHECK(i.op == first);
  CHECK(i.state == VerdictState::confirmed);
  CHECK(i.confidence > 0.9);
  CHECK(cluster.incidents().size() == 1);
}

TEST_CASE("A skipped operation among different ones is named as skipped") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  const uint64_t skipped = comm.op() + 2;
  RoundShape shape;
  const auto sequence = [](uint64_t op) {
    Signature s = fake::all_reduce(1000 + op % 5 * 100);
    if (op % 3 == 0) s.function = abi::Function::all_gather, s.reduction = abi::Reduction::none;
    return s;
  };
  shape.signature_of = [=](int r, uint64_t op) { return sequence(r == 3 && op >= skipped ? op + 1 : op); };
  comm.rounds(20, shape);
  cluster.run_s(2);
  const Incident i = only(cluster);
  INFO(text({i}));
  CHECK(i.fault == FaultClass::h2_inconsistent);
  CHECK(i.op == OpSeq{skipped});
  CHECK(ranks_of(i.culprits) == std::set<int>{3});
  CHECK(i.culprits[0].reason.find("skipped") != std::string::npos);
}

TEST_CASE("Fields that only one side knows yet are no mismatch") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  HangPlan plan;
  plan.called_only = {1, 5};  // not launched: algorithm, protocol and channels are not known
  comm.hang(plan);
  cluster.run_s(3);
  comm.recover();
  comm.rounds(30);
  CHECK(cluster.reported().empty());
}

TEST_CASE("An AllGatherV whose counts differ by rank is no mismatch") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  RoundShape shape;
  shape.signature_of = [](int r, uint64_t) {
    Signature s = fake::all_reduce(100 + r);
    s.function = abi::Function::all_gather_v;
    return s;
  };
  comm.rounds(100, shape);
  cluster.run_s(5);
  CHECK(cluster.reported().empty());
}

TEST_CASE("A mismatch is settled from those that report when a rank never does") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  cluster.lose_telemetry(7, true);
  comm.rounds(1, one_differs(2, [](Signature& s) { s.count /= 2; }));
  comm.rounds(30);
  cluster.run_s(5);
  const Incident i = only(cluster);
  CHECK(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(i.confidence < 0.98);
}

TEST_CASE("An inconsistency stays open for long and resolves in the end") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  comm.rounds(1, one_differs(2, [](Signature& s) { s.count /= 2; }));
  comm.rounds(100);
  cluster.run_s(500);
  CHECK(cluster.open_incidents().size() == 1);
  cluster.run_s(120);
  CHECK(cluster.open_incidents().empty());
}

}  // namespace ccld::decision
