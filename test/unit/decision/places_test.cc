#include "decision/locate/places.h"

#include <optional>

#include <catch2/catch.hpp>

#include "decision/locate/across.h"
#include "decision/locate/hang.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

namespace {

// Two pipelines of two stages, whose first stages (processes 0 and 1) meet in a barrier, as their snapshots show it.
struct Stages {
  Stages() {
    up(barrier, {0, 1});
    up(pipelines[0], {0, 2});
    up(pipelines[1], {1, 3});
    now_ns += 100 * ns_per_s;
    // After what it has done last, process 0 usually sends.
    for (uint64_t i = 0; i < 8; ++i)
      heard(0).kernels.add(i % 2 == 0 ? CommUid{9} : pipelines[0].uid(), 0, 10 * i);
    heard(0).kernels.add(CommUid{9}, 0, 80);
  }
  ProcessModel& heard(uint32_t process) {
    Batch b;
    b.process = {"node", "boot", 100 + process, 0, 1};
    b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
    return *processes.heard(b, now_ns);
  }
  void up(Communicator& comm, std::vector<uint32_t> members) {
    for (size_t r = 0; r < members.size(); ++r) {
      CommUp m;
      m.comm = comm.uid();
      m.rank = Rank{static_cast<int32_t>(r)};
      m.rank_count = static_cast<int>(members.size());
      m.cuda_device = 0;
      comm.up(m, heard(members[r]), now_ns);
    }
  }
  InFlight snapshot(const Communicator& comm, int rank) const {
    InFlight m;
    m.comm = comm.uid();
    m.rank = Rank{rank};
    m.sample_monotonic_ns = static_cast<uint64_t>(now_ns);
    m.moved_age_ms = 5000;
    return m;
  }
  // Process 1 has waited in the barrier for five seconds, process 0 has not come.
  void wait_in_barrier() {
    InFlight here = snapshot(barrier, 1);
    here.entered = here.launched = OpSeq{50};
    here.completed = OpSeq{49};
    InFlightOp o;
    o.op = OpSeq{50};
    o.signature = fake::all_reduce(1);
    o.launched = o.begun = true;
    o.enter_age_ms = 5000;
    o.signals = signals_default;
    here.operations = {o};
    here.operations_total = 1;
    barrier.in_flight(here, heard(1), now_ns);
    InFlight away = snapshot(barrier, 0);
    away.entered = away.launched = away.completed = OpSeq{49};
    barrier.in_flight(away, heard(0), now_ns);
  }
  // The second stage has waited for this call of the first for six seconds.
  void wait_in_receive(int pipeline, uint64_t pair_seq) {
    InFlight m = snapshot(pipelines[pipeline], 1);
    P2pCall c;
    c.peer = Rank{0};
    c.pair_seq = pair_seq;
    c.launched = c.begun = true;
    c.launch_age_ms = 6000;
    m.p2p = {c};
    m.p2p_total = 1;
    pipelines[pipeline].in_flight(m, heard(2 + static_cast<uint32_t>(pipeline)), now_ns);
    pipelines[pipeline].in_flight(snapshot(pipelines[pipeline], 0), heard(static_cast<uint32_t>(pipeline)), now_ns);
  }
  std::vector<Cause> causes() {
    std::vector<Stall> stall;
    for (const Communicator* comm : {&barrier, &pipelines[0], &pipelines[1]}) {
      const std::optional<HangView> view = view_hang(*comm, processes, settings);
      if (!view) continue;
      Stall s;
      s.comm = comm;
      s.view = *view;
      s.calls = p2p_waits(*comm, processes);
      s.located = !view->p2p;
      if (s.located) s.finding = locate_hang(*comm, *view, settings, now_ns);
      stall.push_back(std::move(s));
    }
    const FindCommunicator find = [](CommUid) { return nullptr; };
    const std::vector<InitWait> initializations;
    const Unheard unheard;
    const WaitGraph graph(stall, unheard, initializations, processes, find);
    return find_causes(graph, stall);
  }
  Settings settings;
  ProcessTable processes{settings};
  Communicator barrier{CommUid{1}, settings};
  Communicator pipelines[2] = {{CommUid{2}, settings}, {CommUid{3}, settings}};
  Nanoseconds now_ns = 1000 * ns_per_s;
};

}  // namespace

TEST_CASE("A call that those who wait in a barrier have not made either comes behind the barrier") {
  Stages job;
  job.wait_in_barrier();
  job.wait_in_receive(0, 87);
  job.wait_in_receive(1, 87);
  const std::vector<Cause> causes = job.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].kind == CauseKind::absent);
  CHECK(causes[0].calls);
  CHECK(causes[0].ranks == std::vector<Rank>{Rank{0}});
  CHECK(causes[0].barrier);
}

TEST_CASE("A call that they have made comes before it, and who has not made it has no barrier's timeout") {
  const bool next_one = GENERATE(false, true);
  Stages job;
  job.wait_in_barrier();
  job.wait_in_receive(0, 87);
  if (next_one) job.wait_in_receive(1, 88);
  const std::vector<Cause> causes = job.causes();
  REQUIRE(causes.size() == 1);
  CHECK(causes[0].calls);
  CHECK_FALSE(causes[0].barrier);
}

}  // namespace ccld::decision
