#include "decision/advise/micro_batches.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

namespace ccld::decision::advise {
namespace {

uint64_t sum(const std::vector<uint64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

// The best of all assignments with at least one for each.
double best_of_all(const std::vector<Replica>& replicas, uint64_t total) {
  std::vector<uint64_t> counts(replicas.size(), 1);
  double best = std::numeric_limits<double>::infinity();
  const std::function<void(size_t, uint64_t)> visit = [&](size_t r, uint64_t left) {
    if (r + 1 == replicas.size()) {
      counts[r] = left;
      best = std::min(best, longest(replicas, counts));
      return;
    }
    for (uint64_t n = 1; n + (replicas.size() - r - 1) <= left; ++n) counts[r] = n, visit(r + 1, left - n);
  };
  visit(0, total);
  return best;
}

}  // namespace

TEST_CASE("A replica that takes twice as long gets half as many micro-batches") {
  CHECK(assign_micro_batches({{1, 0}, {2, 0}}, 12) == std::vector<uint64_t>{8, 4});
}

TEST_CASE("Equal replicas keep equal shares") {
  CHECK(assign_micro_batches({{3, 1}, {3, 1}, {3, 1}, {3, 1}}, 32) == std::vector<uint64_t>{8, 8, 8, 8});
}

TEST_CASE("Every replica keeps a micro-batch, however slow it is") {
  CHECK(assign_micro_batches({{1, 0}, {1000, 50}}, 8) == std::vector<uint64_t>{7, 1});
}

TEST_CASE("Fewer micro-batches than replicas have no assignment") {
  CHECK(assign_micro_batches({{1, 0}, {1, 0}}, 1).empty());
  CHECK(assign_micro_batches({}, 4).empty());
}

TEST_CASE("No assignment of small cases is better, by trying all") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> per(0.5, 4), fixed(0, 6);
  for (int round = 0; round < 400; ++round) {
    std::vector<Replica> replicas(1 + round % 5);
    // Whole numbers half of the time: ties are where rounding would show.
    for (Replica& r : replicas)
      r = round % 2 == 0 ? Replica{per(random), fixed(random)}
                         : Replica{std::ceil(per(random)), std::floor(fixed(random))};
    const uint64_t total = replicas.size() + round % 13;
    const std::vector<uint64_t> counts = assign_micro_batches(replicas, total);
    REQUIRE(sum(counts) == total);
    CHECK(longest(replicas, counts) == Approx(best_of_all(replicas, total)).epsilon(1e-12));
  }
}

TEST_CASE("Of large cases no micro-batch of the slowest replica would be done earlier elsewhere") {
  std::mt19937 random(2);
  std::lognormal_distribution<double> per(0, 0.5);
  for (int round = 0; round < 50; ++round) {
    std::vector<Replica> replicas(1 + random() % 300);
    for (Replica& r : replicas) r = {per(random), round % 2 == 0 ? 0.0 : 10 * per(random)};
    const uint64_t total = replicas.size() * (1 + random() % 40);
    std::vector<uint64_t> counts = assign_micro_batches(replicas, total);
    REQUIRE(sum(counts) == total);
    const double time = longest(replicas, counts);
    // A better one would take one from each slowest; where that is not allowed, or another would be as late, there is
    // none.
    for (size_t slowest = 0; slowest < replicas.size(); ++slowest) {
      if (replicas[slowest].fixed + static_cast<double>(counts[slowest]) * replicas[slowest].per_micro_batch < time)
        continue;
      if (counts[slowest] == 1) continue;
      for (size_t r = 0; r < replicas.size(); ++r)
        if (r != slowest)
          REQUIRE(replicas[r].fixed + static_cast<double>(counts[r] + 1) * replicas[r].per_micro_batch >=
                  time * (1 - 1e-12));
    }
  }
}

TEST_CASE("1,024 replicas are assigned in less than 10 ms, whatever the number of micro-batches") {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> per(1, 1.2);
  std::vector<Replica> replicas(1024);
  for (Replica& r : replicas) r = {per(random), 5};
  replicas[17].per_micro_batch = 3;
  for (const uint64_t total : {1024ull, 32 * 1024ull, 10'000'000ull}) {
    double best_ms = std::numeric_limits<double>::infinity();  // of a few: others may have the processor
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      const auto counts = assign_micro_batches(replicas, total);
      best_ms = std::min(best_ms,
                         std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
      REQUIRE(sum(counts) == total);
    }
    WARN(total << " micro-batches: " << best_ms << " ms");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    CHECK(best_ms < 10);
#endif
  }
}

}  // namespace ccld::decision::advise
