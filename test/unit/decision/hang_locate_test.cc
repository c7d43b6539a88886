#include "decision/locate/hang.h"

#include <map>
#include <optional>

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

TEST_CASE("How far a process had come that cannot speak is read in its frame") {
  fake::ClusterOptions options;
  const bool killed = GENERATE(true, false);
  options.reads_frames = GENERATE(true, false);
  CAPTURE(killed, options.reads_frames);
  Cluster cluster({}, options);
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  for (int c = 0; c < 2; ++c) plan.channels[c].stop_after[2] = 0;  // it has sent nothing that others could have seen
  FaultClass fault = FaultClass::h1_not_entered;
  std::string reason;
  SECTION("not to the call") {
    plan.not_called = {2};
    reason = "did not call";
  }
  SECTION("to the call") {
    plan.called_only = {2};
    reason = "did not launch";
  }
  SECTION("to the launch") {
    plan.launched_only = {2};
    reason = "never started";
  }
  SECTION("into the operation") { fault = FaultClass::h3_hardware; }
  killed ? cluster.kill_process(2) : cluster.stop_process(2);
  comm.hang(plan);
  cluster.run_s(8);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.state == VerdictState::confirmed);
  REQUIRE(ranks_of(i.culprits) == std::set<int>{2});
  CHECK(i.culprits[0].component == Component::process);
  if (!options.reads_frames) {
    // Nobody knows: what was not seen is not said to be so.
    fault = FaultClass::h1_not_entered;
    reason = "was not seen to call";
  }
  CHECK(i.fault == fault);
  CHECK(i.culprits[0].reason.find(reason) != std::string::npos);
}

TEST_CASE("A process that was lost before the service began is known by its frame") {
  fake::ClusterOptions options;
  const bool killed = GENERATE(true, false);
  options.reads_frames = true;
  Cluster cluster({}, options);
  killed ? cluster.kill_process(2) : cluster.stop_process(2);
  Comm& comm = healthy_job(cluster);
  HangPlan plan;
  plan.called_only = {2};
  for (int c = 0; c < 2; ++c) plan.channels[c].stop_after[2] = 0;
  comm.hang(plan);
  cluster.run_s(8);
  const Incident i = only_open(cluster);
  INFO(text({i}));
  CHECK(i.state == VerdictState::confirmed);
  REQUIRE(ranks_of(i.culprits) == std::set<int>{2});
  const Culprit& culprit = i.culprits[0];
  CHECK(culprit.component == Component::process);
  CHECK(culprit.pid == 102);
  CHECK(culprit.host == "node0");
  CHECK(culprit.reason.find("did not launch") != std::string::npos);
}

TEST_CASE("A process that was lost before the service began is one cause wherever its frames show it to be missed") {
  fake::ClusterOptions options;
  options.reads_frames = true;
  Cluster cluster({}, options);
  cluster.kill_process(2);
  Comm& all = healthy_job(cluster);
  cluster.run_s(3);  // it is known by now, as a rank of that one
  Comm& pair = cluster.add_comm({2, 3});
  pair.rounds(20);
  HangPlan plan, of_pair;
  plan.not_called = {2};
  of_pair.not_called = {0};
  pair.hang(of_pair);
  all.hang(plan);
  cluster.run_s(20);
  const Incident i = only_open(cluster);
  INFO(text(cluster.incidents()));
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].pid == 102);
  CHECK(cluster.incidents().size() == 1);
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

namespace {

// Three ranks that replay operation 5, and what their newest snapshots show.
struct Replays {
  Replays() : processes(settings), comm(CommUid{7}, settings) {
    for (int r = 0; r < 3; ++r) {
      CommUp up;
      up.comm = CommUid{7};
      up.rank = Rank{r};
      up.rank_count = 3;
      comm.up(up, heard(r), now_ns);
    }
  }
  ProcessModel& heard(int rank) {
    Batch b;
    b.process = {"host", "boot", 100u + rank, 0, 1};
    b.batch_seq = ++batch_seq[rank];
    b.sent_monotonic_ns = now_ns;
    return *processes.heard(b, now_ns);
  }
  void ended(int rank, uint32_t replay) {
    Rounds m;
    m.comm = CommUid{7};
    m.rank = Rank{rank};
    m.rounds.resize(1);
    m.rounds[0].op = OpSeq{5};
    m.rounds[0].replay = replay;
    m.rounds[0].signature = fake::all_reduce();
    comm.rounds(m, heard(rank), now_ns);
    comm.replays().take_complete();
  }
  void snapshot(int rank, uint32_t replay) {
    InFlight m;
    m.comm = CommUid{7};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = now_ns;
    m.moved_age_ms = 10'000;
    if (replay != 0) {
      InFlightOp o;
      o.op = OpSeq{5};
      o.replay = replay;
      o.signature = fake::all_reduce();
      o.launched = o.begun = true;
      o.signals = signals_default;
      m.operations = {o};
      m.operations_total = 1;
    }
    comm.in_flight(m, heard(rank), now_ns);
  }
  Settings settings;
  ProcessTable processes;
  Communicator comm;
  Nanoseconds now_ns = 1000 * ns_per_s;
  std::map<int, uint64_t> batch_seq;
};

}  // namespace

TEST_CASE("A rank whose snapshot is older than another's end of the operation has begun it, and is not accused") {
  Settings settings;
  ProcessTable processes(settings);
  Communicator comm(CommUid{7}, settings);
  Nanoseconds now_ns = 1000 * ns_per_s;
  const auto heard = [&](uint32_t rank) -> ProcessModel& {
    Batch b;
    b.process = {"host", "boot", 100 + rank, 0, 1};
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    return *processes.heard(b, now_ns);
  };
  const auto snapshot = [&](int rank, uint64_t completed) {
    InFlight m;
    m.comm = CommUid{7};
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(now_ns);
    m.entered = m.launched = OpSeq{9};
    m.completed = OpSeq{completed};
    m.moved_age_ms = 60'000;
    if (completed < 9) {
      InFlightOp o;
      o.op = OpSeq{9};
      o.signature = fake::all_reduce();
      o.launched = true;
      o.signals = signals_default;
      m.operations = {o};
      m.operations_total = 1;
    }
    comm.in_flight(m, heard(static_cast<uint32_t>(rank)), now_ns);
  };
  for (int r = 0; r < 3; ++r) {
    CommUp up;
    up.comm = CommUid{7};
    up.rank = Rank{r};
    up.rank_count = 3;
    comm.up(up, heard(static_cast<uint32_t>(r)), now_ns);
  }
  now_ns += 60 * ns_per_s;
  for (int r = 0; r < 3; ++r) snapshot(r, 8);
  now_ns += 50 * ns_per_ms;
  Rounds ended;
  ended.comm = CommUid{7};
  ended.rank = Rank{1};
  ended.rounds.resize(1);
  ended.rounds[0].op = OpSeq{9};
  ended.rounds[0].signature = fake::all_reduce();
  ended.rounds[0].launch_monotonic_ns = 1000 * ns_per_s;
  comm.rounds(ended, heard(1), now_ns);
  const std::optional<HangView> view = view_hang(comm, processes, settings);
  REQUIRE(view);
  CHECK(view->op == OpSeq{9});
  CHECK(view->ranks[0].progress == Progress::begun);
  CHECK(view->ranks[2].progress == Progress::begun);
  CHECK(view->stall_ns <= 100 * ns_per_ms);
  const Finding f = locate_hang(comm, *view, settings, now_ns);
  CHECK(f.culprits.empty());
  CHECK(f.wanted.empty());
}

TEST_CASE("A rank whose GPU has run the replay before and not this one is absent from it") {
  Replays job;
  for (uint32_t replay = 1; replay <= 8; ++replay)
    for (int r : {0, 1, 2}) job.ended(r, replay);
  job.now_ns += 20 * ns_per_s;
  for (int r : {0, 1}) job.snapshot(r, 9);
  job.snapshot(2, 0);
  const std::optional<HangView> view = view_hang(job.comm, job.processes, job.settings);
  REQUIRE(view);
  CHECK(view->op == OpSeq{5});
  CHECK(view->replay == 9);
  CHECK(view->ranks[2].progress == Progress::not_called);
  const Finding f = locate_hang(job.comm, *view, job.settings, job.now_ns);
  CHECK(f.fault == FaultClass::h1_not_entered);
  REQUIRE(f.culprits.size() == 1);
  CHECK(f.culprits[0].rank == Rank{2});
  CHECK(f.culprits[0].reason == "its GPU did not begin replay 9 of operation 5");
  CHECK(f.confidence < 0.95);  // that the graph was launched cannot be seen
}

TEST_CASE("Of a rank of which it is not known that it ended the replay before, nothing is said") {
  Replays job;
  for (uint32_t replay = 1; replay <= 8; ++replay)
    for (int r : {0, 1, 2})
      if (r != 2 || replay != 8) job.ended(r, replay);
  job.batch_seq[2] += 1;  // its report of the eighth was lost, and perhaps that of the ninth
  job.now_ns += 20 * ns_per_s;
  for (int r : {0, 1}) job.snapshot(r, 9);
  job.snapshot(2, 0);
  CHECK_FALSE(view_hang(job.comm, job.processes, job.settings));
}

TEST_CASE("A rank that has ended the replay in which others stand is not absent") {
  Replays job;
  for (uint32_t replay = 1; replay <= 8; ++replay)
    for (int r : {0, 1, 2}) job.ended(r, replay);
  job.ended(2, 9);
  job.now_ns += 20 * ns_per_s;
  for (int r : {0, 1}) job.snapshot(r, 9);
  job.snapshot(2, 0);
  const std::optional<HangView> view = view_hang(job.comm, job.processes, job.settings);
  REQUIRE(view);
  CHECK(view->ranks[2].progress == Progress::done);
}

}  // namespace ccld::decision
