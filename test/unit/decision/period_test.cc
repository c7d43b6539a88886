#include "decision/iteration/period.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

namespace ccld::decision {

namespace {

std::vector<double> even(size_t n) { return std::vector<double>(n, 1e7); }

}  // namespace

TEST_CASE("The first lag at which the operations repeat is the period") {
  std::vector<uint16_t> kinds;
  for (int i = 0; i < 100; ++i) kinds.push_back(static_cast<uint16_t>(std::vector{0, 1, 0, 2, 2}[i % 5]));
  CHECK(find_period(kinds, even(100)) == 5);
}

TEST_CASE("An operation that is different now and then does not hide the period") {
  std::vector<uint16_t> kinds;
  for (int i = 0; i < 300; ++i) kinds.push_back(static_cast<uint16_t>(i % 3));
  kinds[100] = 9;
  kinds[200] = 9;
  CHECK(find_period(kinds, even(300)) == 3);
}

TEST_CASE("Where most operations are equal the few others tell the period") {
  std::vector<uint16_t> one, rows, none;
  for (int i = 0; i < 400; ++i) {
    one.push_back(i % 40 == 0 ? 1 : 0);
    rows.push_back(i % 60 < 30 ? 0 : 1);
    none.push_back(i == 100 || i == 250 ? 1 : 0);
  }
  CHECK(find_period(one, even(400)) == 40);
  CHECK(find_period(rows, even(400)) == 60);
  CHECK(find_period(none, even(400)) == 1);
  one[70] = 9;
  CHECK(find_period(one, even(400)) == 40);
}

TEST_CASE("Equal operations have the period of their rhythm") {
  std::mt19937 random(1);
  std::vector<double> intervals;
  for (int i = 0; i < 120; ++i) intervals.push_back((i % 8 == 0 ? 80e6 : 5e6) * (1 + 0.1 * static_cast<double>(random() % 100) / 100));
  CHECK(find_period(std::vector<uint16_t>(120, 0), intervals) == 8);
}

TEST_CASE("Equal operations at an even pace are iterations of one operation") {
  std::mt19937 random(1);
  std::vector<double> intervals;
  for (int i = 0; i < 120; ++i) intervals.push_back(5e6 * (1 + 0.3 * static_cast<double>(random() % 100) / 100));
  CHECK(find_period(std::vector<uint16_t>(120, 0), intervals) == 1);
}

TEST_CASE("Two pauses, however long, are no rhythm") {
  for (const int second : {230, 249, 260}) {
    std::mt19937 random(1);
    std::vector<double> intervals;
    for (int i = 0; i < 300; ++i)
      intervals.push_back((i == 150 || i == second ? 1e10 : 5e6) *
                          (1 + 0.1 * static_cast<double>(random() % 100) / 100));
    CHECK(find_period(std::vector<uint16_t>(300, 0), intervals) == 1);
  }
}

TEST_CASE("Operations without order have no period") {
  std::mt19937 random(1);
  std::vector<uint16_t> kinds;
  for (int i = 0; i < 300; ++i) kinds.push_back(static_cast<uint16_t>(random() % 8));
  CHECK(find_period(kinds, even(300)) == 0);
  CHECK(find_period({}, {}) == 0);
}

TEST_CASE("Autocorrelation is 1 without lag and at the period, less between") {
  std::vector<double> x;
  for (int i = 0; i < 60; ++i) x.push_back(std::sin(i * 2 * M_PI / 6));
  const std::vector<double> acf = autocorrelation(x, 12);
  CHECK(acf[0] == Approx(1));
  CHECK(acf[6] == Approx(1).margin(0.01));
  CHECK(acf[3] < -0.9);
}

}  // namespace ccld::decision
