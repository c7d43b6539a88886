#include "decision/measure/baseline.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

TEST_CASE("T_base is the mean of the maxima of the first rounds and then stays") {
  Settings s;
  s.baseline_rounds_max = 4;
  Baselines baselines(s);
  KindBaseline& b = *baselines.of(RoundKind{});
  CHECK_FALSE(b.usable());
  for (double t : {10.0, 20.0, 30.0}) baselines.count(b, t, 1);
  CHECK_FALSE(b.usable());
  baselines.count(b, 40, 1);
  CHECK(b.fixed);
  CHECK(b.t_base_ns == 25);
  baselines.count(b, 1000, 2);
  CHECK(b.t_base_ns == 25);
}

TEST_CASE("T_base takes the rounds of the first two minutes if they are fewer") {
  Settings s;
  Baselines baselines(s);
  KindBaseline& b = *baselines.of(RoundKind{});
  for (int i = 0; i < 3; ++i) baselines.count(b, 10, 1 + i * 50 * ns_per_s);
  CHECK_FALSE(b.fixed);
  baselines.count(b, 1000, 151 * ns_per_s);
  CHECK(b.fixed);
  CHECK(b.t_base_ns == 10);
}

TEST_CASE("A configured value serves until the first rounds are over") {
  Settings s;
  s.baseline_init_ms = 5;
  s.baseline_rounds_max = 2;
  Baselines baselines(s);
  KindBaseline& b = *baselines.of(RoundKind{});
  CHECK(b.t_base_ns == 5e6);
  CHECK_FALSE(b.fixed);
  baselines.count(b, 10, 1);
  baselines.count(b, 20, 2);
  CHECK(b.t_base_ns == 15);
}

TEST_CASE("Kinds of rounds are bounded") {
  Settings s;
  s.signatures_max = 2;
  Baselines baselines(s);
  for (uint64_t count : {1u, 2u}) CHECK(baselines.of(RoundKind{count}) != nullptr);
  CHECK(baselines.of(RoundKind{3}) == nullptr);
  CHECK(baselines.of(RoundKind{1}) != nullptr);
}

TEST_CASE("A spread is not carried away by an outlier and follows a lasting change") {
  Spread s;
  for (int i = 0; i < 50; ++i) s.add(100 + i % 3);
  const double before = s.mean();
  s.add(1e9);
  CHECK(s.mean() < before + 2);
  for (int i = 0; i < 3000; ++i) s.add(200 + i % 3);
  CHECK(s.mean() > 190);
}

}  // namespace ccld::decision
