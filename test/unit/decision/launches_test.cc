#include "decision/measure/launches.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace ccld::decision {
namespace {

constexpr double ms = 1e6;
constexpr Nanoseconds clocks_ns = -400 * ns_per_ms;  // host and GPU

RoundCell cell(double gap_ms, double queued_ms) {
  RoundCell c;
  c.reported = c.timed = c.has_queued = true;
  c.gap_ns = static_cast<Nanoseconds>(gap_ms * ms);
  c.queued_ns = static_cast<Nanoseconds>(queued_ms * ms) + clocks_ns;
  return c;
}

// Of a rank whose gaps are these in turn; its host launches as soon as an operation is over, or is ahead by this much.
KindBaseline learnt(const std::vector<double>& gaps_ms, const std::vector<double>& ahead_ms) {
  KindBaseline b;
  b.ranks.resize(1);
  for (size_t i = 0; i < 60; ++i) {
    const double gap_ms = gaps_ms[i % gaps_ms.size()];
    RoundEntry e;
    e.cells = {cell(gap_ms, gap_ms - 0.1 + ahead_ms[i % ahead_ms.size()])};
    learn_launches(e, b);
  }
  return b;
}

}  // namespace

TEST_CASE("Where hosts launch in turn, what comes late after the usual launch is the GPU's, wherever in the iteration") {
  const KindBaseline b = learnt({40, 120, 60, 120}, {0});
  // 10 ms late, in the place with the shortest gaps: its queue is shorter than usual.
  CHECK(queued_ns(b, 0, cell(50, 49.9), 10 * ms, 0) == Approx(10 * ms).epsilon(0.05));
  CHECK(queued_ns(b, 0, cell(50, 39.9), 10 * ms, 0) == Approx(0).margin(0.5 * ms));
  // Before the launch other communicators had the GPU, and the host was late or was not: its queue tells.
  CHECK(queued_ns(b, 0, cell(500, 120), 10 * ms, 380 * ms) == Approx(10 * ms).epsilon(0.05));
  CHECK(queued_ns(b, 0, cell(500, 120), 10 * ms, 375 * ms) == Approx(5 * ms).epsilon(0.1));
  CHECK(queued_ns(b, 0, cell(500, 60), 10 * ms, 300 * ms) == Approx(0).margin(0.5 * ms));
  RoundCell unknown = cell(50, 50);
  unknown.has_queued = false;
  CHECK(std::isnan(queued_ns(b, 0, unknown, 10 * ms, 0)));
  CHECK(std::isnan(queued_ns(b, 1, cell(50, 50), 10 * ms, 0)));
}

TEST_CASE("A few operations after which the host does something else do not hide that it launches in turn") {
  const KindBaseline b = learnt({40, 120, 60, 120, 300}, {0, 0, 0, 0, -200});
  CHECK(queued_ns(b, 0, cell(50, 49.9), 10 * ms, 0) == Approx(10 * ms).epsilon(0.05));
}

TEST_CASE("Where hosts are ahead by any time, queues are compared with the usual ones") {
  const KindBaseline b = learnt({40, 120, 60}, {10, 35, 80, 55, 20});
  const double usual_ms = 73.2 + 40;
  CHECK(queued_ns(b, 0, cell(50, usual_ms + 10), 10 * ms, 0) == Approx(10 * ms).margin(2 * ms));
  CHECK(queued_ns(b, 0, cell(50, usual_ms - 10), 10 * ms, 0) == Approx(-10 * ms).margin(2 * ms));
}

}  // namespace ccld::decision
