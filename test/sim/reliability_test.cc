#include "test/sim/judge/reliability.h"

#include <catch2/catch.hpp>

#include "decision/analysis/slow_confidence.h"

namespace ccld::sim {
namespace {

using namespace decision;

std::vector<Word> words(size_t all, size_t right, double confidence, std::vector<size_t> rows) {
  std::vector<Word> out(all, Word{FaultClass::s1_computation_slow, confidence, false, std::move(rows)});
  for (size_t i = 0; i < right; ++i) out[i].right = true;
  return out;
}

}  // namespace

TEST_CASE("Of each confidence it is said how many incidents have it, and how many are right") {
  Reliability r;
  CHECK(r.text().empty());
  r.add(words(20, 19, 0.95, {0}));
  r.add(words(10, 6, 0.62, {1}));
  r.add({Word{FaultClass::h3_hardware, 1, true, {}}});
  const std::string text = r.text();
  INFO(text);
  CHECK(text.find("0.95 to 1.00                              20      19   95.0 %     95.0 %") != std::string::npos);
  CHECK(text.find("0.60 to 0.65                              10       6   60.0 %     62.0 %") != std::string::npos);
  CHECK(text.find("0.95 to 1.00                               1       1  100.0 %    100.0 %") != std::string::npos);
}

TEST_CASE("What fits a cause alone is the part that is right, one right and one wrong added") {
  Reliability r;
  r.add(words(98, 89, 0.5, {2}));
  CHECK(r.fitting()[2] == Approx(0.9).epsilon(0.001));
}

TEST_CASE("What fits causes that are told together is found from those that are told alone") {
  Reliability r;
  r.add(words(1000, 900, 0.5, {0}));
  r.add(words(1000, 720, 0.5, {0, 1}));
  CHECK(r.fitting()[0] == Approx(0.9).epsilon(0.01));
  CHECK(r.fitting()[1] == Approx(0.8).epsilon(0.01));
}

TEST_CASE("What fits causes that are only told together explains them together") {
  Reliability r;
  r.add(words(1000, 640, 0.5, {5, 6}));
  const std::vector<double> fits = r.fitting();
  CHECK(fits[5] * fits[6] == Approx(0.64).epsilon(0.01));
}

TEST_CASE("A few incidents that are all right do not make certain") {
  Reliability r;
  r.add(words(3, 3, 0.5, {4}));
  CHECK(r.fitting()[4] == Approx(0.8).epsilon(0.001));
}

}  // namespace ccld::sim
