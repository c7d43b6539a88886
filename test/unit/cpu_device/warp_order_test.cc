#include "nccl/cpu_device/engine/warp_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

using namespace ccld::cpu_device;

TEST_CASE("An order without a seed is ascending and lets nobody jump the queue", "[engine]") {
  WarpOrder order;
  order.reset(std::nullopt, 3, 1, 16);
  for (int round = 0; round < 3; ++round) {
    const unsigned* warps = order.next();
    for (unsigned i = 0; i < 16; ++i) REQUIRE(warps[i] == i);
    REQUIRE_FALSE(order.jump_the_queue());
  }
}

TEST_CASE("A seeded order is a permutation of the warps that changes every time", "[engine]") {
  WarpOrder order;
  order.reset(42, 0, 0, 8);
  std::set<std::vector<unsigned>> orders;
  for (int round = 0; round < 20; ++round) {
    const unsigned* warps = order.next();
    std::vector<unsigned> now(warps, warps + 8), sorted = now;
    std::sort(sorted.begin(), sorted.end());
    for (unsigned i = 0; i < 8; ++i) REQUIRE(sorted[i] == i);
    orders.insert(now);
  }
  REQUIRE(orders.size() > 15);
}

TEST_CASE("Launches and blocks get orders of their own from one seed", "[engine]") {
  WarpOrder a, b, c;
  a.reset(42, 0, 0, 32);
  b.reset(42, 1, 0, 32);
  c.reset(42, 0, 1, 32);
  const unsigned *x = a.next(), *y = b.next(), *z = c.next();
  REQUIRE_FALSE(std::equal(x, x + 32, y));
  REQUIRE_FALSE(std::equal(x, x + 32, z));
}
