#include "decision/locate/walk.h"

#include <optional>
#include <string>

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

TEST_CASE("A channel that freezes in NVLS names the rank's GPU and the channel, though all wait for the switch") {
  const int rank = GENERATE(range(0, 8));
  const int after = GENERATE(0, 1, 9, 20);
  const bool vague = GENERATE(false, true);
  fake::ClusterOptions options;
  options.processes_per_node = 8;
  Cluster cluster({}, options);
  Comm& comm = healthy_job(cluster, abi::Algorithm::nvls);
  HangPlan plan = plan_of(abi::Algorithm::nvls);
  plan.channels[1].stop_after[rank] = after;
  plan.vague_waits = vague;
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO("rank " << rank << " after " << after << (vague ? " vague" : "") << '\n' << text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{rank});
  CHECK(open[0].culprits[0].component == Component::gpu);
  CHECK(open[0].culprits[0].channel == 1);
}

TEST_CASE("A channel that freezes in CollNet names the rank's GPU, though all wait for the collective network") {
  const int rank = GENERATE(range(0, 8));
  const int after = GENERATE(0, 1, 9, 20);
  Cluster cluster;
  Comm& comm = healthy_job(cluster, abi::Algorithm::collnet_chain);
  HangPlan plan = plan_of(abi::Algorithm::collnet_chain);
  plan.channels[1].stop_after[rank] = after;
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO("rank " << rank << " after " << after << '\n' << text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{rank});
  CHECK(open[0].culprits[0].component == Component::gpu);
  CHECK(open[0].culprits[0].channel == 1);
}

TEST_CASE("A kernel that has begun on some of its channels only is hard evidence, but not in the first operations") {
  const bool first = GENERATE(true, false);
  Cluster cluster;
  Comm& comm = first ? cluster.add_comm_of_all(abi::Algorithm::ring) : healthy_job(cluster, abi::Algorithm::ring);
  HangPlan plan = plan_of(abi::Algorithm::ring);
  plan.channels[1].absent.insert(5);
  comm.hang(plan);
  cluster.run_s(20);
  if (first) {
    CHECK(cluster.reported().empty());
    cluster.run_s(50);
  }
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::h3_hardware);
  CHECK(open[0].state == (first ? VerdictState::suspected : VerdictState::confirmed));
  REQUIRE(ranks_of(open[0].culprits) == std::set<int>{5});
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
  // What the switch of NVLS, or the collective network, has summed up says that it is inside.
  const auto algorithm =
      GENERATE(abi::Algorithm::ring, abi::Algorithm::tree, abi::Algorithm::nvls, abi::Algorithm::collnet_chain);
  fake::ClusterOptions options;
  if (algorithm == abi::Algorithm::nvls) options.processes_per_node = 8;
  Cluster cluster({}, options);
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

namespace {

// A ring of three machines in operation 5, of which each snapshot is written down. Everybody's operation began at step
// 100.
struct Ring {
  Ring() {
    for (int r = 0; r < 3; ++r) {
      CommUp up;
      up.comm = CommUid{7};
      up.rank = Rank{r};
      up.rank_count = 3;
      up.node = r;
      comm.up(up, heard(r), now_ns);
    }
    now_ns += 20 * ns_per_s;
  }
  ProcessModel& heard(int rank) {
    Batch b;
    b.process = {"node" + std::to_string(rank), "boot" + std::to_string(rank), 100u + static_cast<uint32_t>(rank), 0,
                 1};
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    return *processes.heard(b, now_ns);
  }
  // It is in the operation, has posted up to `posted`, and waits for the step behind `received` of its predecessor.
  void snapshot(int rank, uint64_t op, uint32_t base, uint32_t posted, uint32_t received) {
    InFlight m;
    m.comm = CommUid{7};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(now_ns);
    m.entered = m.launched = OpSeq{op};
    m.completed = OpSeq{op - 1};
    m.moved_age_ms = 10'000;
    m.late = true;
    m.kernel_plan = static_cast<uint32_t>(op);
    InFlightOp o;
    o.op = OpSeq{op};
    o.plan = static_cast<uint32_t>(op);
    o.signature = fake::all_reduce();
    o.launched = o.begun = true;
    o.signals = signals_default;
    ChannelState c;
    c.token = o.plan;
    c.begun = true;
    c.running_age_ms = 10'000;
    o.channels = {c};
    m.operations = {o};
    m.operations_total = 1;
    LaneState l;
    l.token = o.plan;
    l.base_step = base;
    l.moved_age_ms = 10'000;
    l.peer = (rank + 1) % 3;
    l.direction = abi::Direction::send;
    l.current_step = posted;
    l.poll_age_ms = 10'000;
    m.lanes.push_back(l);
    l.peer = (rank + 2) % 3;
    l.direction = abi::Direction::recv;
    l.current_step = received;
    l.want_step = received + 1;
    l.wait = abi::WaitKind::data;
    l.wait_certain = true;
    l.wait_age_ms = 10'000;
    l.poll_age_ms = 1;
    m.lanes.push_back(l);
    comm.in_flight(m, heard(rank), now_ns);
  }
  // It tells that it has ended the operation, before it shows anything newer.
  void ended(int rank, uint64_t op) {
    Rounds m;
    m.comm = CommUid{7};
    m.rank = Rank{rank};
    Round round;
    round.op = OpSeq{op};
    round.signature = fake::all_reduce();
    m.rounds = {round};
    comm.rounds(m, heard(rank), now_ns);
  }
  Finding locate() {
    const std::optional<HangView> view = view_hang(comm, processes, settings);
    REQUIRE(view);
    CHECK(view->op == OpSeq{5});
    return locate_hang(comm, *view, settings, now_ns);
  }
  Settings settings;
  ProcessTable processes{settings};
  Communicator comm{CommUid{7}, settings};
  Nanoseconds now_ns = 1000 * ns_per_s;
};

}  // namespace

TEST_CASE("A step that its sender posted in a later operation was not sent in this one: the sender had fewer steps") {
  Ring ring;
  ring.snapshot(0, 6, 112, 120, 112);  // had twelve steps, and has gone on
  ring.snapshot(1, 5, 100, 113, 112);
  ring.snapshot(2, 5, 100, 113, 113);
  const Finding f = ring.locate();
  CHECK(f.fault == FaultClass::h2_inconsistent);
  REQUIRE(f.culprits.size() == 1);
  CHECK(f.culprits[0].rank == Rank{0});
  CHECK(f.culprits[0].component == Component::application);
  CHECK(f.culprits[0].reason == "ended operation 5, of which all others expect more steps");
  CHECK(f.candidates.empty());
}

TEST_CASE("One that is alone in an operation that all others have ended had more steps") {
  Ring ring;
  ring.snapshot(0, 5, 100, 112, 112);
  ring.snapshot(1, 6, 112, 112, 112);
  ring.snapshot(2, 6, 112, 120, 112);
  const Finding f = ring.locate();
  CHECK(f.fault == FaultClass::h2_inconsistent);
  CHECK(ranks_of(f.culprits) == std::set<int>{0});
}

TEST_CASE("A step that was sent in the operation and has not arrived is the link's, even if its sender has gone on") {
  Ring ring;
  ring.snapshot(0, 6, 120, 128, 120);
  ring.snapshot(1, 5, 100, 113, 112);
  ring.snapshot(2, 5, 100, 113, 113);
  const Finding f = ring.locate();
  CHECK(f.fault == FaultClass::h3_hardware);
  REQUIRE(f.culprits.size() == 1);
  CHECK(f.culprits[0].component == Component::link);
  CHECK(f.culprits[0].rank == Rank{0});
  CHECK(f.culprits[0].peer == Rank{1});
}

TEST_CASE("A sender that has ended the operation after its last snapshot sent more than that shows") {
  Ring ring;
  ring.snapshot(0, 5, 100, 105, 104);
  ring.snapshot(1, 5, 100, 113, 112);
  ring.snapshot(2, 5, 100, 113, 113);
  ring.ended(0, 5);
  const Finding f = ring.locate();
  CHECK(f.fault == FaultClass::h3_hardware);
  CHECK(f.candidates.empty());
  REQUIRE(f.culprits.size() == 1);
  CHECK(f.culprits[0].component == Component::link);
  CHECK(f.culprits[0].rank == Rank{0});
  CHECK(f.culprits[0].peer == Rank{1});
}

}  // namespace ccld::decision
