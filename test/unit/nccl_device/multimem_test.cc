#include "nccl/cpu_device/device/multimem.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "nccl/cpu_device/device/ptx_execute.h"

namespace ccld::cpu_device {
namespace {

// Memory of three GPUs behind one address that nothing is mapped at.
struct ThreeMembers {
  static constexpr uint64_t address = uint64_t{1} << 50;
  static constexpr uint64_t bytes = 64;
  alignas(16) char memory[3][bytes] = {};

  ThreeMembers() {
    add_multicast_range(address, bytes, [this](uint64_t, MulticastView* view) -> const char* {
      *view = MulticastView{};
      view->begin = address;
      view->end = address + bytes;
      for (auto& member : memory) view->members[view->member_count++] = member;
      return nullptr;
    });
  }
  ~ThreeMembers() { remove_multicast_range(address); }

  template <class T>
  void set(size_t index, T first, T second, T third) {
    const T values[] = {first, second, third};
    for (int i = 0; i < 3; ++i) memcpy(memory[i] + index * sizeof(T), &values[i], sizeof(T));
  }
  template <class T>
  bool all_are(size_t index, T value) const {
    for (const auto& member : memory) {
      if (memcmp(member + index * sizeof(T), &value, sizeof(T)) != 0) return false;
    }
    return true;
  }
};

template <class T>
T as(uint32_t bits) {
  return same_bits<T>(bits);
}

uint32_t pair_of(float low, float high) {
  return static_cast<uint32_t>(same_bits<uint16_t>(__float2half_rn(high))) << 16 |
         same_bits<uint16_t>(__float2half_rn(low));
}

uint32_t bfloat16_pair_of(float low, float high) {
  return static_cast<uint32_t>(same_bits<uint16_t>(__float2bfloat16_rn(high))) << 16 |
         same_bits<uint16_t>(__float2bfloat16_rn(low));
}

TEST_CASE("a multimem load combines integers of all members, signed and unsigned") {
  ThreeMembers gpus;
  gpus.set<uint32_t>(0, 0xffffffffu, 2, 3);
  gpus.set<uint64_t>(1, uint64_t{1} << 40, 5, 9);
  uint32_t word = 0;
  uint64_t wide = 0;
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];">(word, gpus.address);
  CHECK(word == 4);
  ptx<"multimem.ld_reduce.relaxed.sys.global.max.u32 %0, [%1];">(word, gpus.address);
  CHECK(word == 0xffffffffu);
  ptx<"multimem.ld_reduce.relaxed.sys.global.max.s32 %0, [%1];">(word, gpus.address);
  CHECK(word == 3);
  ptx<"multimem.ld_reduce.relaxed.sys.global.min.s32 %0, [%1];">(word, gpus.address);
  CHECK(word == 0xffffffffu);
  ptx<"multimem.ld_reduce.acquire.sys.global.min.u64 %0, [%1];">(wide, gpus.address + 8);
  CHECK(wide == 5);
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.u64 %0, [%1+8];">(wide, gpus.address);
  CHECK(wide == (uint64_t{1} << 40) + 14);
}

TEST_CASE("a multimem load adds floats and doubles") {
  ThreeMembers gpus;
  gpus.set<float>(0, 0.5f, 1.25f, -4);
  gpus.set<double>(1, 1e300, 1, 2e300);
  float sum = 0;
  double wide = 0;
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];">(sum, gpus.address);
  CHECK(sum == -2.25f);
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.f64 %0, [%1];">(wide, gpus.address + 8);
  CHECK(wide == 3e300);
  uint32_t a, b, c, d;
  gpus.set<float>(7, 1, 2, 3);
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0,%1,%2,%3}, [%4];">(a, b, c, d, gpus.address + 16);
  CHECK(as<float>(a) == 0);
  CHECK(as<float>(d) == 6);
}

TEST_CASE("pairs of 16-bit floats add up in 32 bits and are rounded once") {
  ThreeMembers gpus;
  // In 16 bits 2048 + 1 is 2048 again.
  gpus.set<uint32_t>(0, pair_of(2048, 1), pair_of(1, 2), pair_of(1, 3));
  gpus.set<uint32_t>(4, bfloat16_pair_of(256, 1), bfloat16_pair_of(1, 2), bfloat16_pair_of(1, 3));
  uint32_t pair = 0, b, c, d;
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.f16x2 %0, [%1];">(pair, gpus.address);
  CHECK(pair == pair_of(2050, 6));
  ptx<"multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0,%1,%2,%3}, [%4];">(pair, b, c, d,
                                                                                           gpus.address + 16);
  CHECK(pair == bfloat16_pair_of(258, 6));
  CHECK(b == 0);
}

TEST_CASE("the minimum or maximum of a pair is one of each half, and never a NaN beside a number") {
  ThreeMembers gpus;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  gpus.set<uint32_t>(0, pair_of(-3, 7), pair_of(nan, 8), pair_of(2, -9));
  uint32_t pair = 0;
  ptx<"multimem.ld_reduce.relaxed.sys.global.min.f16x2 %0, [%1];">(pair, gpus.address);
  CHECK(pair == pair_of(-3, -9));
  ptx<"multimem.ld_reduce.relaxed.sys.global.max.f16x2 %0, [%1];">(pair, gpus.address);
  CHECK(pair == pair_of(2, 8));
}

TEST_CASE("a multimem store or sum reaches every member") {
  ThreeMembers gpus;
  ptx<"multimem.st.global.b32 [%0], %1;">(gpus.address, 7u);
  ptx<"multimem.st.global.b64 [%0], %1;">(gpus.address + 8, uint64_t{8});
  ptx<"multimem.st.global.v4.f32 [%0], {%1,%2,%3,%4};">(gpus.address + 16, 1.0f, 2.0f, 3.0f, 4.0f);
  CHECK(gpus.all_are<uint32_t>(0, 7));
  CHECK(gpus.all_are<uint32_t>(1, 0));
  CHECK(gpus.all_are<uint64_t>(1, 8));
  CHECK(gpus.all_are<float>(4, 1));
  CHECK(gpus.all_are<float>(7, 4));
  ptx<"multimem.red.release.sys.global.add.u32 [%0], %1;">(gpus.address, 3u);
  CHECK(gpus.all_are<uint32_t>(0, 10));
}

TEST_CASE("a plain store of one number to a multicast address reaches every member") {
  ThreeMembers gpus;
  ptx<"st.global.b8 [%0], %1;">(gpus.address + 1, 0x11u);
  ptx<"st.global.b16 [%0], %1;">(gpus.address + 2, uint16_t{0x3322});
  CHECK(gpus.all_are<uint32_t>(0, 0x33221100u));
  ptx<"st.relaxed.sys.global.u64 [%0], %1;">(gpus.address + 32, uint64_t{99});
  CHECK(gpus.all_are<uint64_t>(4, 99));
  uint64_t word = 0;
  ptx<"st.relaxed.sys.global.u64 [%0], %1;">(&word, uint64_t{5});
  CHECK(word == 5);
}

TEST_CASE("multimem instructions that are not understood exactly are not known") {
  const auto valid = [](std::string_view text) { return parse_ptx(text).valid; };
  CHECK(valid("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];"));
  CHECK_FALSE(valid("multimem.ld_reduce.relaxed.sys.global.add.f16x2 %0, [%1];"));  // sums in 16 bits
  CHECK_FALSE(valid("multimem.ld_reduce.relaxed.sys.global.add.acc::f16.e4m3x4 %0, [%1];"));
  CHECK_FALSE(valid("multimem.ld_reduce.relaxed.sys.global.xor.b32 %0, [%1];"));
  CHECK_FALSE(valid("multimem.ld_reduce.relaxed.sys.global.min.f32 %0, [%1];"));
  CHECK_FALSE(valid("multimem.ld_reduce.release.sys.global.add.u32 %0, [%1];"));
  CHECK_FALSE(valid("multimem.ld_reduce.relaxed.sys.global.add.v4.u32 {%0,%1,%2,%3}, [%4];"));
  CHECK_FALSE(valid("multimem.st.global.v2.f32 [%0], {%1,%2};"));
  CHECK_FALSE(valid("multimem.red.relaxed.sys.global.min.u32 [%0], %1;"));
  CHECK_FALSE(valid("multimem.cp.async.bulk [%0], %1;"));
}

}  // namespace
}  // namespace ccld::cpu_device
