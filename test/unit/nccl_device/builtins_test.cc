#include <catch2/catch.hpp>

#include "test/unit/nccl_device/grid.h"

namespace ccld::cpu_device {
namespace {

TEST_CASE("each thread knows its place in the block and the shape of the launch") {
  bool seen[96] = {};
  unsigned block_size = 0, grid_size = 0;
  run_block(96, [&] {
    seen[threadIdx.x] = true;
    block_size = blockDim.x;
    grid_size = gridDim.x;
  });
  for (bool one : seen) CHECK(one);
  CHECK(block_size == 96);
  CHECK(grid_size == 1);
}

TEST_CASE("bit counting agrees with CUDA at its edges") {
  CHECK(__clz(0) == 32);
  CHECK(__clz(1) == 31);
  CHECK(__clzll(0) == 64);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__popc(0xf0u) == 4);
  CHECK(__popcll(~0ull) == 64);
}

TEST_CASE("byte permutation picks bytes and replicates signs") {
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7610) == 0x77661100u);
  CHECK(__byte_perm(0x00000080u, 0, 0x8888) == 0xffffffffu);
  CHECK(__byte_perm(0x00000070u, 0, 0x8888) == 0u);
}

TEST_CASE("funnel shifts use five bits of the distance") {
  CHECK(__funnelshift_r(0x00000001u, 0x80000000u, 31) == 0x00000000u);
  CHECK(__funnelshift_r(0x12345678u, 0x9abcdef0u, 8) == 0xf0123456u);
  CHECK(__funnelshift_l(0x12345678u, 0x9abcdef0u, 8) == 0xbcdef012u);
  CHECK(__funnelshift_r(0x12345678u, 0x9abcdef0u, 40) == 0xf0123456u);
}

TEST_CASE("upper halves of products are exact") {
  CHECK(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  CHECK(__umul64hi(~0ull, ~0ull) == ~0ull - 1);
}

}  // namespace
}  // namespace ccld::cpu_device
