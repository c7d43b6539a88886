#include "test/support/workload/phases.h"

#include <catch2/catch.hpp>
#include <set>

namespace ccld::workload {
namespace {

constexpr int rank_count = 8;
constexpr uint64_t rounds = 20000;

TEST_CASE("All ranks agree on the operation of every round, and on when communicators are made anew", "[phases]") {
  const Phases mine(7, rank_count, {}), theirs(7, rank_count, {});
  for (uint64_t round = 1; round < rounds; ++round) {
    const Behaviour a = mine.of(round, 0), b = theirs.of(round, 5);
    REQUIRE(a.operation == b.operation);
    REQUIRE(a.bytes == b.bytes);
    REQUIRE(a.recreate == b.recreate);
  }
}

TEST_CASE("A job warms up first, and does everything sooner or later", "[phases]") {
  const Phases phases(3, rank_count, {});
  CHECK(phases.at(1).kind == PhaseKind::warm_up);
  std::set<PhaseKind> seen;
  for (uint64_t round = 1; round < rounds; ++round) seen.insert(phases.at(round).kind);
  CHECK(seen.size() == 10);
}

TEST_CASE("Phases follow each other without a gap", "[phases]") {
  const Phases phases(3, rank_count, {});
  for (uint64_t round = 1; round < rounds; ++round) {
    const Phase& phase = phases.at(round);
    REQUIRE(round >= phase.first_round);
    REQUIRE(round < phase.first_round + phase.rounds);
  }
}

TEST_CASE("Long waits happen at barriers or when nobody has an operation in flight", "[phases]") {
  const PhaseLimits limits;
  const Phases phases(11, rank_count, limits);
  for (uint64_t round = 1; round < rounds; ++round) {
    for (int rank = 0; rank < rank_count; ++rank) {
      const Behaviour behaviour = phases.of(round, rank);
      if (behaviour.kind == PhaseKind::checkpoint) {
        REQUIRE(behaviour.operation == Operation::all_reduce);
        REQUIRE(behaviour.bytes == 4);
        REQUIRE(behaviour.host_pause_ms <= limits.barrier_ms_max);
      } else if (behaviour.kind == PhaseKind::idle) {
        REQUIRE(behaviour.host_pause_ms == phases.of(round, 0).host_pause_ms);
      } else {
        REQUIRE(behaviour.host_pause_ms <= limits.pause_ms_max);
      }
    }
  }
}

TEST_CASE("Imbalance stays with no rank", "[phases]") {
  const Phases phases(5, rank_count, {});
  std::set<int> busiest;
  for (uint64_t round = 1; round < rounds; ++round) {
    if (phases.at(round).kind != PhaseKind::imbalance) continue;
    for (int rank = 0; rank < rank_count; ++rank)
      if (phases.of(round, rank).compute_ms > 30) busiest.insert(rank);
  }
  CHECK(busiest.size() == rank_count);
}

TEST_CASE("Another seed is another job", "[phases]") {
  const Phases one(1, rank_count, {}), other(2, rank_count, {});
  int different = 0;
  for (uint64_t round = 1; round < 1000; ++round) different += one.at(round).kind != other.at(round).kind;
  CHECK(different > 100);
}

}  // namespace
}  // namespace ccld::workload
