// The check can fail: what was written down is spoilt, and every seed must be judged wrong.
#include <catch2/catch.hpp>

#include "test/sim/simulation.h"

namespace ccld::sim {
namespace {

Judgement run(uint64_t seed, FaultKind kind, Canary canary) {
  RunOptions options;
  options.wishes.fault = kind;
  options.canary = canary;
  return run_seed(seed, options).judgement;
}

TEST_CASE("a fault whose telemetry never came is reported as missed") {
  for (FaultKind kind : {FaultKind::never_calls, FaultKind::other_type, FaultKind::frozen_channel})
    CHECK(run(1, kind, Canary::suppressed).mistake == Mistake::missed);
}

TEST_CASE("a fault that was not written down is reported as a false alarm") {
  for (uint64_t seed : {1, 2, 3}) CHECK(run(seed, FaultKind::stopped, Canary::unrecorded).mistake == Mistake::false_alarm);
}

TEST_CASE("another culprit than the one named is reported as wrong") {
  for (uint64_t seed : {1, 2, 3}) CHECK_FALSE(run(seed, FaultKind::frozen_channel, Canary::other_rank).right());
}

TEST_CASE("a seed replays exactly") {
  for (uint64_t seed : {21, 22, 23, 24}) {
    const Result one = run_seed(seed, {}), other = run_seed(seed, {});
    CHECK(one.judgement.said == other.judgement.said);
    CHECK(one.simulated == other.simulated);
    CHECK(one.scenario.planted.text == other.scenario.planted.text);
  }
}

}  // namespace
}  // namespace ccld::sim
