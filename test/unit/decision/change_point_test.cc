#include "decision/iteration/change_point.h"

#include <catch2/catch.hpp>
#include <random>

namespace ccld::decision {

namespace {

struct Found {
  int at = -1;     // when it was said
  int began = -1;  // when it began, as said
};

// The first change that is said from value `from` on.
Found feed(ChangePoints& changes, int from, int to, double level, double noise, std::mt19937& random) {
  std::normal_distribution<double> spread(0, noise);
  Found found;
  for (int i = from; i < to; ++i)
    if (const auto ago = changes.add(level + spread(random)); ago && found.at < 0) found = {i, i + 1 - static_cast<int>(*ago)};
  return found;
}

}  // namespace

TEST_CASE("A series that keeps its level has no change, whatever its noise") {
  const double noise = GENERATE(0.001, 0.05, 0.3);
  for (unsigned seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    ChangePoints changes(0.05);
    INFO("noise " << noise << " seed " << seed);
    CHECK(feed(changes, 0, 500, 3, noise, random).at == -1);
  }
}

TEST_CASE("A new level is found within a few values, and where it began") {
  std::mt19937 random(GENERATE(1u, 2u, 3u));
  ChangePoints changes(0.05);
  CHECK(feed(changes, 0, 100, 3, 0.03, random).at == -1);
  const Found found = feed(changes, 100, 140, 3.25, 0.03, random);
  CHECK(found.at >= 100);
  CHECK(found.at < 115);
  CHECK(found.began >= 99);
  CHECK(found.began <= 102);
}

TEST_CASE("The same values give the same answers, in bounded memory") {
  std::mt19937 a(7), b(7);
  ChangePoints x(0.05), y(0.05);
  for (double level : {1.0, 1.5, 1.0, 2.0}) {
    const Found f = feed(x, 0, 300, level, 0.02, a), g = feed(y, 0, 300, level, 0.02, b);
    CHECK(f.at == g.at);
    CHECK(f.began == g.began);
  }
}

}  // namespace ccld::decision
