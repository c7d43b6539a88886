#include "decision/model/replay_history.h"

#include <catch2/catch.hpp>

#include "decision/model/communicator.h"
#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {

TEST_CASE("A replay is complete when every rank has reported it, and replays of one operation are told apart") {
  Settings s;
  ReplayHistory h(s);
  h.set_rank_count(2);
  const Signature sig = fake::all_reduce();
  for (uint32_t replay : {1u, 2u}) CHECK(h.round({OpSeq{5}, replay}, Rank{0}, sig, {}));
  CHECK(h.take_complete().empty());
  CHECK(h.round({OpSeq{5}, 2}, Rank{1}, sig, {}));
  CHECK_FALSE(h.round({OpSeq{5}, 2}, Rank{1}, sig, {}));
  const auto done = h.take_complete();
  REQUIRE(done.size() == 1);
  CHECK(done[0].replay == 2);
  CHECK(done[0].op == OpSeq{5});
  CHECK(h.rounds() == 1);
  CHECK_FALSE(h.round({OpSeq{5}, 2}, Rank{0}, sig, {}));  // late and repeated
}

TEST_CASE("Replays that never complete give way to newer ones") {
  Settings s;
  s.rounds_kept_max = 8;
  ReplayHistory h(s);
  h.set_rank_count(2);
  for (uint32_t replay = 1; replay <= 1000; ++replay) h.round({OpSeq{1}, replay}, Rank{0}, fake::all_reduce(), {});
  CHECK(h.evicted() == 992);
  CHECK(h.round({OpSeq{1}, 1000}, Rank{1}, fake::all_reduce(), {}));
  CHECK(h.take_complete().size() == 1);
}

namespace {

struct Job {
  Job() {
    Batch b;
    b.process = {"host", "boot", 1, 0, 1};
    b.sent_monotonic_ns = 1;
    process = processes.heard(b, ns_per_s);
    CommUp up;
    up.comm = CommUid{7};
    up.rank_count = 1;
    comm.up(up, *process, ns_per_s);
  }
  Round round(uint64_t op, uint64_t begin, uint64_t end, uint8_t flags = 0) {
    Round r;
    r.op = OpSeq{op};
    r.signature = fake::all_reduce();
    r.begin_device_ns = begin;
    r.end_device_ns = end;
    r.launch_monotonic_ns = 1;
    r.flags = static_cast<uint8_t>(flags | round_counts_valid);
    r.send_steps = 9;
    return r;
  }
  std::vector<RoundEntry> report(std::vector<Round> rounds) {
    Rounds m;
    m.comm = CommUid{7};
    m.rounds = std::move(rounds);
    comm.rounds(m, *process, 2 * ns_per_s);
    return comm.history().take_complete();
  }
  Settings settings;
  ProcessTable processes{settings};
  ProcessModel* process = nullptr;
  Communicator comm{CommUid{7}, settings};
};

}  // namespace

TEST_CASE("Operations that share a kernel are one loss of time: only the first is timed") {
  Job job;
  const auto done = job.report({job.round(1, 100, 200), job.round(2, 300, 500, round_shared_kernel),
                                job.round(3, 300, 500, round_shared_kernel), job.round(4, 600, 700)});
  REQUIRE(done.size() == 4);
  CHECK(done[0].cells[0].kernel_operations == 1);
  CHECK(done[1].cells[0].timed);
  CHECK(done[1].cells[0].kernel_operations == 2);
  CHECK_FALSE(done[2].cells[0].timed);
  CHECK(done[3].cells[0].timed);
  CHECK(done[3].cells[0].gap_ns == 100);  // since the end of the shared kernel
}

TEST_CASE("What was not measured has no times") {
  Job job;
  Round unseen = job.round(1, 100, 200, round_not_measured), no_times = job.round(2, 100, 200),
        no_steps = job.round(3, 300, 400);
  no_times.signals = abi::signal_stream;
  no_steps.signals = abi::signal_times;
  const auto done = job.report({unseen, no_times, no_steps});
  REQUIRE(done.size() == 3);
  CHECK_FALSE(done[0].cells[0].timed);
  CHECK_FALSE(done[1].cells[0].timed);
  CHECK(done[2].cells[0].timed);
  CHECK(job.comm.begun_by_all() == OpSeq{3});
}

TEST_CASE("A replay neither advances the counters of calls nor takes part in their order") {
  Job job;
  Round replay = job.round(1, 1000, 2000);
  job.report({job.round(1, 100, 200), job.round(2, 300, 400)});
  replay.replay = 5;
  CHECK(job.report({replay}).empty());
  const RankModel& r = *job.comm.rank(Rank{0});
  CHECK(r.completed == OpSeq{2});
  CHECK(r.last_round == OpSeq{2});
  const auto replays = job.comm.replays().take_complete();
  REQUIRE(replays.size() == 1);
  CHECK(replays[0].replay == 5);
  CHECK(replays[0].cells[0].timed);
  // Consecutive operations of one replay have a gap on the GPU's clock.
  Round next = job.round(2, 2100, 2200);
  next.replay = 5;
  job.report({next});
  CHECK(job.comm.replays().take_complete()[0].cells[0].gap_ns == 100);
}

TEST_CASE("Operations that were only recorded into graphs are not in flight") {
  Job job;
  InFlight m;
  m.comm = CommUid{7};
  m.sample_monotonic_ns = 1;
  m.entered = OpSeq{1};
  InFlightOp captured;
  captured.op = OpSeq{1};
  captured.signature.flags = abi::op_captured | abi::op_launched;
  m.operations = {captured};
  m.operations_total = 1;
  job.comm.in_flight(m, *job.process, 2 * ns_per_s);
  CHECK(job.comm.ranks_in_flight() == 0);
  m.sample_monotonic_ns = 2;
  m.entered = OpSeq{2};
  InFlightOp called = captured;
  called.op = OpSeq{2};
  called.signature.flags = abi::op_launched;
  m.operations = {captured, called};
  m.operations_total = 2;
  job.comm.in_flight(m, *job.process, 2 * ns_per_s);
  CHECK(job.comm.ranks_in_flight() == 1);
  CHECK(job.comm.rank(Rank{0})->oldest_in_flight() == OpSeq{2});
}

}  // namespace ccld::decision
