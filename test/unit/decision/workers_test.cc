#include "decision/workers.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace ccld::decision {

TEST_CASE("workers do everything once, again and again, and are done when run() returns") {
  for (const size_t threads : {1, 2, 8}) {
    Workers workers(threads);
    CHECK(workers.threads() == threads);
    for (size_t count = 0; count < 300; ++count) {
      std::vector<int> done(count);  // plain: who writes where is one thread's affair
      workers.run(count, 0, [&](size_t i) { ++done[i]; });
      CHECK(std::accumulate(done.begin(), done.end(), size_t{0}) == count);
    }
  }
}

TEST_CASE("what one run has written the next one sees, whoever does it") {
  Workers workers(4);
  std::vector<uint64_t> sums(16);
  for (uint64_t round = 1; round <= 2000; ++round)
    workers.run(sums.size(), 0, [&](size_t i) { sums[(i + round) % sums.size()] += round; });
  for (uint64_t sum : sums) CHECK(sum == 2000 * 2001 / 2);
}

TEST_CASE("for too little work nobody is woken") {
  Workers workers(4);
  const std::thread::id caller = std::this_thread::get_id();
  for (int round = 0; round < 1000; ++round)
    workers.run(9, 10, [&](size_t) { REQUIRE(std::this_thread::get_id() == caller); });
}

}  // namespace ccld::decision
