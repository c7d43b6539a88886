#include "nccl/cpu_device/device/ptx_execute.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "test/unit/nccl_device/grid.h"

namespace ccld::cpu_device {
namespace {

TEST_CASE("loads and stores touch exactly the bytes of their type") {
  alignas(16) uint8_t memory[16];
  memset(memory, 0xee, sizeof memory);
  ptx<"st.volatile.global.b16 [%0],%1;">(memory + 2, 0x12345u);
  CHECK(memory[1] == 0xee);
  CHECK(memory[2] == 0x45);
  CHECK(memory[3] == 0x23);
  CHECK(memory[4] == 0xee);

  uint32_t value = 0;
  ptx<"ld.volatile.global.b8 %0,[%1];">(value, memory + 2);
  CHECK(value == 0x45);
  uint64_t wide = 0;
  ptx<"ld.relaxed.sys.global.u64 %0, [%1];">(wide, memory);
  CHECK(wide == 0xeeeeeeee2345eeeeu);
}

TEST_CASE("vectors keep the order of their elements") {
  alignas(16) uint32_t memory[4] = {};
  ptx<"st.volatile.global.v4.u32 [%0], {%1,%2,%3,%4};">(memory, 1u, 2u, 3u, 4u);
  CHECK(memory[0] == 1);
  CHECK(memory[3] == 4);
  uint64_t low = 0, high = 0;
  ptx<"ld.volatile.global.v2.u64 {%0,%1}, [%2];">(low, high, memory);
  CHECK(low == 0x0000000200000001u);
  CHECK(high == 0x0000000400000003u);
  ptx<"st.relaxed.sys.global.v2.u64 [%2], {%0,%1};">(high, low, memory);
  CHECK(memory[0] == 3);
  ptx<"st.relaxed.sys.global.v2.u32 [%0], {%1,%2};">(memory, 8u, 9u);
  CHECK(memory[1] == 9);
  CHECK(memory[2] == 1);
}

TEST_CASE("addresses may be pointers or numbers, with an offset") {
  uint64_t memory[2] = {5, 7};
  uint64_t value = 0;
  ptx<"ld.global.u64 %0, [%1+8];">(value, reinterpret_cast<uint64_t>(memory));
  CHECK(value == 7);
}

TEST_CASE("floating-point operands move as bits") {
  float memory = 0, value = 0;
  ptx<"st.global.f32 [%0], %1;">(&memory, 1.5f);
  ptx<"ld.global.f32 %0, [%1];">(value, &memory);
  CHECK(value == 1.5f);
}

TEST_CASE("32-bit products are exact in both halves") {
  uint32_t low = 3, high = 3, upper = 0;
  ptx<"mad.lo.u32 %0, %1, %2, %0;">(low, 0xffffffffu, 0x10u);
  ptx<"mad.hi.u32 %0, %1, %2, %0;">(high, 0xffffffffu, 0x10u);
  ptx<"mul.hi.u32 %0, %1, %2;">(upper, 0xffffffffu, 0x10u);
  CHECK(low == 0xfffffff3u);
  CHECK(high == 0x12u);
  CHECK(upper == 0xfu);
}

TEST_CASE("the global timer runs in nanoseconds and never backwards") {
  uint64_t before = 0, after = 0;
  ptx<"mov.u64 %0, %%globaltimer;">(before);
  ptx<"mov.u64 %0, %%globaltimer;">(after);
  CHECK(before > 0);
  CHECK(after >= before);
}

TEST_CASE("special registers name the lane") {
  bool right[64] = {};
  run_block(64, [&] {
    uint32_t lane = 99, below = 0;
    ptx<"mov.u32 %0, %%laneid;">(lane);
    ptx<"mov.u32 %0, %%lanemask_lt;">(below);
    const unsigned thread = current_fiber->linear_index;
    right[thread] = lane == thread % 32 && below == (1u << lane) - 1;
  });
  for (bool lane_right : right) CHECK(lane_right);
}

TEST_CASE("a reducing barrier tells every thread whether any voted, and only within its own threads") {
  int answers[96] = {};
  run_block(96, [&] {
    const int thread = static_cast<int>(current_fiber->linear_index);
    const int name = thread < 64 ? 1 : 2, threads = thread < 64 ? 64 : 32;
    ptx<"{ .reg .pred p; setp.ne.s32 p, %1, 0; barrier.red.or.pred p, %2, %3, p; selp.s32 %0, 1, 0, p; }">(
        answers[thread], thread == 5 ? 1 : 0, name, threads);
  });
  for (int thread = 0; thread < 96; thread++) CHECK(answers[thread] == (thread < 64 ? 1 : 0));
}

TEST_CASE("a barrier lets nobody pass before the last has come") {
  int arrived = 0;
  bool complete[64] = {};
  run_block(64, [&] {
    arrived++;
    ptx<"barrier.sync.aligned %0, %1;">(3, 64);
    complete[current_fiber->linear_index] = arrived == 64;
  });
  for (bool all : complete) CHECK(all);
}

}  // namespace
}  // namespace ccld::cpu_device
