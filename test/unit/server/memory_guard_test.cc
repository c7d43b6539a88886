#include "decision/server/memory_guard.h"

#include <malloc.h>

#include <catch2/catch.hpp>

#include "decision/server/memory_limit.h"
#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision::server {
namespace {

constexpr uint64_t limit = 1000;

// What the system says, as the test likes it.
struct Memory {
  uint64_t used = 0;
  int trims = 0;
  uint64_t freed_by_trim = 0;
  MemoryGuard guard{limit, {[this] { return used; }, [this] { ++trims, used -= freed_by_trim; }}};
};

Batch claim(uint32_t pid, uint64_t comm, int ranks, Nanoseconds now_ns) {
  Batch b;
  b.process = {"stranger", "boot of a stranger", pid, 0, pid};
  b.job = "stranger";
  b.sent_monotonic_ns = static_cast<uint64_t>(now_ns);
  CommUp up;
  up.comm = CommUid{comm};
  up.rank = Rank{static_cast<int32_t>(comm % static_cast<uint64_t>(ranks))};
  up.rank_count = ranks;
  b.payloads = {up};
  return b;
}

size_t communicators(const Analyzer& analyzer, Nanoseconds now_ns) {
  return analyzer.status(now_ns).communicators.size();
}

}  // namespace

TEST_CASE("While there is memory nothing is let go of, and nothing without a limit") {
  Memory memory;
  Analyzer analyzer{Settings{}};
  analyzer.apply(claim(1, 1, 2, ns_per_s), ns_per_s);
  memory.used = 690;
  memory.guard.look(analyzer, ns_per_s);
  CHECK(memory.trims == 0);
  CHECK(memory.guard.status().used_bytes == 690);
  MemoryGuard unlimited(0, {[] { return UINT64_MAX; }, [] {}});
  unlimited.look(analyzer, ns_per_s);
  CHECK(communicators(analyzer, ns_per_s) == 1);
  CHECK(analyzer.let_go_so_far().total() == 0);
}

TEST_CASE("Memory that the allocator only holds is given back before anything is let go of") {
  Memory memory;
  Analyzer analyzer{Settings{}};
  analyzer.apply(claim(1, 1, 2, ns_per_s), ns_per_s);
  memory.used = 900;
  memory.freed_by_trim = 300;
  for (Nanoseconds now = ns_per_s; now < 2 * ns_per_s; now += 100 * ns_per_ms) memory.guard.look(analyzer, now);
  CHECK(memory.trims == 1);
  CHECK(analyzer.let_go_so_far().total() == 0);
  CHECK(memory.guard.status().admits_new);
}

TEST_CASE("Near the limit claims go, then nobody new is taken in until there is room again") {
  Memory memory;
  Analyzer analyzer{Settings{}};
  Nanoseconds now = ns_per_s;
  for (uint64_t comm = 1; comm <= 64; ++comm) analyzer.apply(claim(1, comm, 4, now), now);
  memory.used = 850;
  memory.guard.look(analyzer, now += 100 * ns_per_ms);
  CHECK_FALSE(memory.guard.status().admits_new);
  analyzer.apply(claim(1, 65, 4, now), now);
  analyzer.apply(claim(2, 66, 4, now), now);
  CHECK(analyzer.let_go_so_far().communicators_refused == 1);
  CHECK(analyzer.let_go_so_far().processes_refused == 1);
  for (int look = 0; look < 200; ++look) memory.guard.look(analyzer, now += 100 * ns_per_ms);
  CHECK(communicators(analyzer, now) == 0);
  CHECK(analyzer.let_go_so_far().communicators == 64);
  memory.used = 600;
  memory.guard.look(analyzer, now += ns_per_s);
  CHECK(memory.guard.status().admits_new);
  analyzer.apply(claim(2, 66, 4, now), now);
  CHECK(communicators(analyzer, now) == 1);
}

TEST_CASE("At the last resort claims go at each look") {
  const auto left_after = [](uint64_t used) {
    Memory memory;
    memory.used = used;
    Analyzer analyzer{Settings{}};
    Nanoseconds now = ns_per_s;
    for (uint32_t i = 0; i < 64; ++i) analyzer.apply(claim(i + 1, i + 1, 2, now), now);
    for (int look = 0; look < 20; ++look) memory.guard.look(analyzer, now += 10 * ns_per_ms);
    return communicators(analyzer, now);
  };
  CHECK(left_after(850) > 55);
  CHECK(left_after(950) < 30);
}

TEST_CASE("Where nothing is gained by it, jobs that are there are let go of ever more seldom") {
  Memory memory;
  Analyzer analyzer{Settings{}};
  Nanoseconds now = ns_per_s;
  const auto all_speak = [&] {
    for (uint64_t comm = 1; comm <= 64; ++comm) analyzer.apply(claim(static_cast<uint32_t>(comm), comm, 1, now), now);
  };
  all_speak();
  memory.used = 950;  // of which nothing is the analysis' own
  for (int look = 0; look < 100; ++look) {
    memory.guard.look(analyzer, now += 100 * ns_per_ms);
    all_speak();
  }
  CHECK(memory.guard.is_short());
  // 250 ms, 500 ms and so on: six times within ten seconds, where it were forty.
  CHECK(communicators(analyzer, now) >= 64 - 7 * 4);
}

TEST_CASE("A stranger who announces without end is bounded, and the fault of a real job is found") {
  if (mallinfo2().uordblks == 0) return;  // a sanitizer's heap keeps what was freed
  fake::Cluster cluster;
  fake::Comm& real = cluster.add_comm_of_all();
  real.rounds(30);
  cluster.run_s(1);
  // So much beside what the process has already.
  constexpr uint64_t room = uint64_t{96} << 20;
  malloc_trim(0);
  const uint64_t before = resident_bytes(), bytes_max = before * 10 / 7 + room;
  MemoryGuard guard(bytes_max);
  fake::HangPlan plan;
  plan.not_called = {5};
  real.hang(plan);
  uint64_t comm = 1000, most = 0;
  Nanoseconds guarded_ns = cluster.now_ns();
  for (int tenth = 0; tenth < 100; ++tenth) {
    constexpr int claims = 400;  // of 80 KB each: in all, thirty times the room
    for (int i = 0; i < claims; ++i, ++comm) {
      const auto pid = static_cast<uint32_t>(1 + comm % 50'000);
      cluster.analyzer().apply(claim(pid, comm, 1000, cluster.now_ns()), cluster.now_ns());
      guard.look(cluster.analyzer(), guarded_ns += 100 * ns_per_ms / claims);
      most = std::max(most, guard.status().used_bytes);
    }
    cluster.run_s(0.1);
  }
  CHECK(most < bytes_max);
  CHECK(cluster.analyzer().let_go_so_far().communicators > 0);
  REQUIRE(cluster.open_incidents().size() == 1);
  CHECK(cluster.open_incidents()[0].fault == FaultClass::h1_not_entered);
  REQUIRE(cluster.open_incidents()[0].culprits.size() == 1);
  CHECK(cluster.open_incidents()[0].culprits[0].rank == Rank{5});
}

}  // namespace ccld::decision::server
