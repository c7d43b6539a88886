#include <catch2/catch.hpp>

#include "test/unit/nccl_device/grid.h"

namespace ccld::cpu_device {
namespace {

TEST_CASE("atomic functions return the old value") {
  unsigned value = 5;
  CHECK(atomicAdd(&value, 2u) == 5);
  CHECK(atomicSub(&value, 1u) == 7);
  CHECK(atomicExch(&value, 12u) == 6);
  CHECK(atomicOr(&value, 3u) == 12);
  CHECK(atomicAnd(&value, 6u) == 15);
  CHECK(atomicCAS(&value, 6u, 9u) == 6);
  CHECK(atomicCAS(&value, 6u, 1u) == 9);
  CHECK(atomicMax(&value, 20u) == 9);
  CHECK(atomicMin(&value, 30u) == 20);
  CHECK(value == 20);
}

TEST_CASE("the threads of a block count themselves") {
  unsigned count = 0, last = 0;
  run_block(128, [&] {
    if (atomicAdd(&count, 1u) == blockDim.x - 1) last++;
  });
  CHECK(count == 128);
  CHECK(last == 1);
}

TEST_CASE("a polling atomic_ref lets the thread that it waits for run") {
  int flag = 0;
  int seen[64] = {};
  run_block(64, [&] {
    cuda::ccld_polling_atomic_ref<int, cuda::thread_scope_block> poll(flag);
    if (threadIdx.x == 63) poll.store(7);
    while (poll.load() == 0) {
    }
    seen[threadIdx.x] = poll.load();
  });
  for (int value : seen) CHECK(value == 7);
}

}  // namespace
}  // namespace ccld::cpu_device
