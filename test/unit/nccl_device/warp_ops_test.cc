#include <catch2/catch.hpp>

#include "test/unit/nccl_device/grid.h"

namespace ccld::cpu_device {
namespace {

TEST_CASE("a shuffle reads the value of the lane it names, in every warp") {
  int got[64] = {};
  run_block(64, [&] { got[threadIdx.x] = __shfl_sync(~0u, static_cast<int>(threadIdx.x) * 10, 3); });
  for (int i = 0; i < 64; i++) CHECK(got[i] == (i / 32 * 32 + 3) * 10);
}

TEST_CASE("shuffles stay within segments and keep the own value at their edges") {
  int up[32], down[32], exchanged[32], segment[32];
  run_block(32, [&] {
    const int lane = static_cast<int>(threadIdx.x);
    up[lane] = __shfl_up_sync(~0u, lane, 2, 8);
    down[lane] = __shfl_down_sync(~0u, lane, 2, 8);
    exchanged[lane] = __shfl_xor_sync(~0u, lane, 5);
    segment[lane] = __shfl_sync(~0u, lane, 9, 8);
  });
  for (int lane = 0; lane < 32; lane++) {
    CHECK(up[lane] == (lane % 8 < 2 ? lane : lane - 2));
    CHECK(down[lane] == (lane % 8 >= 6 ? lane : lane + 2));
    CHECK(exchanged[lane] == (lane ^ 5));
    CHECK(segment[lane] == lane / 8 * 8 + 1);
  }
}

TEST_CASE("shuffles carry every type of up to 8 bytes") {
  double got[32];
  run_block(32, [&] { got[threadIdx.x] = __shfl_sync(~0u, threadIdx.x + 0.5, 31); });
  for (double value : got) CHECK(value == 31.5);
}

TEST_CASE("votes see exactly the lanes of the mask") {
  unsigned ballots[32] = {};
  int any[32] = {}, all[32] = {};
  run_block(32, [&] {
    const unsigned mask = threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u;
    ballots[threadIdx.x] = __ballot_sync(mask, threadIdx.x % 2);
    any[threadIdx.x] = __any_sync(mask, threadIdx.x == 3);
    all[threadIdx.x] = __all_sync(mask, threadIdx.x >= 16);
  });
  CHECK(ballots[0] == 0x0000aaaau);
  CHECK(ballots[31] == 0xaaaa0000u);
  CHECK(any[0] == 1);
  CHECK(any[16] == 0);
  CHECK(all[0] == 0);
  CHECK(all[31] == 1);
}

TEST_CASE("matching lanes find each other") {
  unsigned lanes[32] = {};
  run_block(32, [&] { lanes[threadIdx.x] = __match_any_sync(~0u, threadIdx.x % 4); });
  CHECK(lanes[0] == 0x11111111u);
  CHECK(lanes[7] == 0x88888888u);
}

TEST_CASE("lanes that returned do not hold the others up") {
  unsigned ballot = 0;
  run_block(32, [&] {
    if (threadIdx.x >= 8) return;
    const unsigned lanes = __ballot_sync(~0u, 1);
    if (threadIdx.x == 0) ballot = lanes;
  });
  CHECK((ballot & 0xffu) == 0xffu);
}

}  // namespace
}  // namespace ccld::cpu_device
