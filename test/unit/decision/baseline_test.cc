#include "decision/measure/baseline.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

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
