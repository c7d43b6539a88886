#include "test/sim/cluster/job.h"

#include <catch2/catch.hpp>

#include "test/sim/scenario.h"

namespace ccld::sim {
namespace {

// A drawn healthy job; nothing but the mechanics.
Scenario healthy(uint64_t seed) {
  Wishes wishes;
  wishes.fault = FaultKind::none;
  return draw(seed, wishes);
}

TEST_CASE("members of a communicator know their ranks, and each process is in one of every kind at most") {
  LayoutSizes sizes;
  sizes.tensor = 2, sizes.pipeline = 2, sizes.data = 4, sizes.expert = 2;
  const Layout layout(sizes);
  CHECK(layout.processes() == 16);
  for (size_t c = 0; c < layout.comms().size(); ++c)
    for (int r = 0; r < layout.comms()[c].ranks(); ++r) {
      const int p = layout.comms()[c].members[r];
      CHECK(layout.comm_of(p, layout.comms()[c].kind) == static_cast<int>(c));
      CHECK(layout.rank_in(static_cast<int>(c), p) == r);
    }
}

TEST_CASE("the ring of every channel visits each rank once, and the tree reaches each from one root") {
  LayoutSizes sizes;
  sizes.data = 13;
  sizes.gpus_per_host = 4;
  const Layout layout(sizes);
  const Topology t(layout, layout.comms()[0], 3);
  for (int c = 0; c < 3; ++c) {
    const ChannelGraph& g = t.graph(c);
    std::vector<int> visits(13);
    for (int i = 0, r = 0; i < 13; ++i, r = g.next(r)) ++visits[r];
    int roots = 0;
    for (int r = 0; r < 13; ++r) {
      CHECK(visits[r] == 1);
      CHECK(g.next(g.prev(r)) == r);
      roots += g.tree[r].up < 0;
    }
    CHECK(roots == 1);
    CHECK(g.top_down.size() == 13);
  }
}

TEST_CASE("a healthy job goes on, and all ranks end an operation after all have begun it") {
  for (uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const Scenario sc = healthy(seed);
    const Layout layout(sc.sizes);
    if (layout.processes() > 64) continue;
    Job job(layout, sc.traffic, sc.conditions, seed, sc.start);
    job.run_until(sc.start + 40 * ns_per_s);
    CHECK(job.iteration_of_process(0) > 2);
    for (size_t c = 0; c < layout.comms().size(); ++c) {
      for (const OpRecord& op : job.timeline(static_cast<int>(c), 0).ops) {
        if (op.end >= never || op.shape->way == Way::broadcast) continue;
        for (const RankStart& s : op.round->starts) {
          CHECK(s.launch <= s.begin);
          CHECK(s.begin <= op.end);
        }
      }
    }
  }
}

TEST_CASE("equal seeds give equal jobs") {
  const Scenario sc = healthy(11);
  const Layout layout(sc.sizes);
  Job one(layout, sc.traffic, sc.conditions, 11, sc.start), other(layout, sc.traffic, sc.conditions, 11, sc.start);
  const Instant end = sc.start + 10 * ns_per_s;
  one.run_until(end);
  for (Instant t = sc.start; t <= end; t += 100 * ns_per_ms) other.run_until(t);
  CHECK(one.last_event(end) == other.last_event(end));
}

TEST_CASE("a process that never comes back stops the whole job") {
  Wishes wishes;
  wishes.fault = FaultKind::never_calls;
  const Scenario sc = draw(5, wishes);
  const Layout layout(sc.sizes);
  Job job(layout, sc.traffic, sc.conditions, 5, sc.start);
  job.run_until(sc.planted.at + 100 * ns_per_s);
  CHECK(job.last_event(sc.planted.at + 100 * ns_per_s) < sc.planted.at + 60 * ns_per_s);
}

TEST_CASE("who goes on after an operation that was shorter for it stands where its own steps have brought it") {
  Wishes wishes;
  wishes.fault = FaultKind::other_count;
  int seen = 0;
  for (uint64_t seed = 1; seed < 400 && seen < 3; ++seed) {
    const Scenario sc = draw(seed, wishes);
    const Layout layout(sc.sizes);
    if (layout.processes() > 16) continue;
    Job job(layout, sc.traffic, sc.conditions, seed, sc.start);
    const int culprit = sc.planted.processes[0], comm = sc.planted.comm, rank = layout.rank_in(comm, culprit);
    for (Instant t = sc.start; t < sc.start + 60 * ns_per_s && job.edited_op(culprit) == 0; t += ns_per_s)
      job.run_until(t);
    const uint64_t edited = job.edited_op(culprit);
    if (edited == 0) continue;
    job.run_until(job.last_event(sc.start + 60 * ns_per_s) + 20 * ns_per_s);
    const auto of = [&](int r, uint64_t op) -> const OpRecord* {
      for (const OpRecord& o : job.timeline(comm, r).ops)
        if (o.op == op) return &o;
      return nullptr;
    };
    const OpRecord *last = of(rank, edited), *next = of(rank, edited + 1);
    if (!last || last->end >= never || !next || next->begin >= never) continue;
    const int other = rank == 0 ? 1 : 0;
    const OpRecord* hangs = of(other, edited);
    if (!hangs || hangs->end < never) continue;
    const auto own = static_cast<uint32_t>(job.steps_of(*last->round).steps_of(rank) * last->shape->step_size);
    CHECK(job.first_step(comm, rank, *next) == job.first_step(comm, rank, *last) + own);
    CHECK(job.first_step(comm, other, *hangs) == job.first_step(comm, rank, *last));
    ++seen;
  }
  CHECK(seen > 0);
}

}  // namespace
}  // namespace ccld::sim
