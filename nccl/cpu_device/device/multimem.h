// What multimem instructions do: one access to a multicast address is an access to the memory of every member behind
// it.
//
// Contract
//   Elements are combined in the order of the GPUs, in their own type; pairs of 16-bit floats add up in 32 bits and are
//   rounded once. A minimum or maximum of a number and a NaN is the number. Each element is read and written whole.
//
// Must follow CUDA's own headers, like the rest of this folder.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <emmintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "nccl/cpu_device/device/ptx_parse.h"
#include "nccl/cpu_device/engine/engine.h"
#include "nccl/cpu_device/engine/multicast.h"

#define CCLD_DEVICE_INLINE inline __attribute__((always_inline))

namespace ccld::cpu_device {

template <class To, class From>
CCLD_DEVICE_INLINE To same_bits(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(static_cast<void*>(&to), &from, sizeof to);
  return to;
}

template <Reduction Op, class Number>
CCLD_DEVICE_INLINE Number combine(Number a, Number b) {
  if constexpr (Op == Reduction::add) {
    return a + b;
  } else if constexpr (std::is_floating_point_v<Number>) {
    return Op == Reduction::min ? std::fmin(a, b) : std::fmax(a, b);
  } else {
    return Op == Reduction::min ? (b < a ? b : a) : (b > a ? b : a);
  }
}

// What an element is while it is combined: one or two numbers.
template <ElementKind Kind, class Bits>
struct Combined {
  using Number = std::conditional_t<
      Kind == ElementKind::signed_integer, std::make_signed_t<Bits>,
      std::conditional_t<Kind == ElementKind::floating, std::conditional_t<sizeof(Bits) == 4, float, double>, Bits>>;
  static constexpr bool wraps = !std::is_floating_point_v<Number>;

  Number number;

  CCLD_DEVICE_INLINE explicit Combined(Bits bits) : number(same_bits<Number>(bits)) {}
  template <Reduction Op>
  CCLD_DEVICE_INLINE void take(const Combined& other) {
    if constexpr (Op == Reduction::add && wraps) {
      number = static_cast<Number>(static_cast<Bits>(number) + static_cast<Bits>(other.number));
    } else {
      number = combine<Op>(number, other.number);
    }
  }
  CCLD_DEVICE_INLINE Bits bits() const { return same_bits<Bits>(number); }
};

template <class Half>
struct CombinedPair {
  float low, high;

  static CCLD_DEVICE_INLINE float widen(uint16_t bits) {
    if constexpr (std::is_same_v<Half, __half>) {
      return __half2float(same_bits<Half>(bits));
    } else {
      return __bfloat162float(same_bits<Half>(bits));
    }
  }
  static CCLD_DEVICE_INLINE uint32_t narrow(float value) {
    if constexpr (std::is_same_v<Half, __half>) {
      return same_bits<uint16_t>(__float2half_rn(value));
    } else {
      return same_bits<uint16_t>(__float2bfloat16_rn(value));
    }
  }

  CCLD_DEVICE_INLINE explicit CombinedPair(uint32_t bits)
      : low(widen(static_cast<uint16_t>(bits))), high(widen(static_cast<uint16_t>(bits >> 16))) {}
  template <Reduction Op>
  CCLD_DEVICE_INLINE void take(const CombinedPair& other) {
    low = combine<Op>(low, other.low);
    high = combine<Op>(high, other.high);
  }
  CCLD_DEVICE_INLINE uint32_t bits() const { return narrow(high) << 16 | narrow(low); }
};
template <class Bits>
struct Combined<ElementKind::half_pair, Bits> : CombinedPair<__half> {
  using CombinedPair::CombinedPair;
};
template <class Bits>
struct Combined<ElementKind::bfloat16_pair, Bits> : CombinedPair<__nv_bfloat16> {
  using CombinedPair::CombinedPair;
};

// Elements of one member, read at once where they are 16 bytes.
template <int Width, class Bits>
CCLD_DEVICE_INLINE void load_elements(const char* from, Bits (&values)[Width]) {
  if constexpr (Width * sizeof(Bits) == 16) {
    __m128i whole;
    asm volatile("movdqa %1,%0" : "=x"(whole) : "m"(*reinterpret_cast<const __m128i*>(from)) : "memory");
    memcpy(values, &whole, sizeof whole);
  } else {
    static_assert(Width == 1);
    values[0] = __atomic_load_n(reinterpret_cast<const Bits*>(from), __ATOMIC_ACQUIRE);
  }
}

template <Reduction Op, ElementKind Kind, int Width, class Bits>
CCLD_DEVICE_INLINE void multimem_load_reduce(uint64_t address, Bits (&result)[Width]) {
  using Number = Combined<Kind, Bits>;
  const MulticastView& view = multicast_view(address, sizeof result);
  if (!view.whole) trap("a multimem load of memory that a GPU has taken back");
  const uint64_t offset = address - view.begin;
  [&]<size_t... K>(std::index_sequence<K...>) __attribute__((always_inline)) {
    Bits values[Width];
    load_elements(view.members[0] + offset, values);
    Number sums[Width] = {Number(values[K])...};
    for (int member = 1; member < view.member_count; ++member) {
      load_elements(view.members[member] + offset, values);
      (sums[K].template take<Op>(Number(values[K])), ...);
    }
    ((result[K] = sums[K].bits()), ...);
  }
  (std::make_index_sequence<Width>());
}

// Calls `each` with the memory of every member behind the address.
template <class Each>
CCLD_DEVICE_INLINE void for_each_member(uint64_t address, uint64_t bytes, Each each) {
  const MulticastView& view = multicast_view(address, bytes);
  const uint64_t offset = address - view.begin;
  for (int member = 0; member < view.member_count; ++member) each(view.members[member] + offset);
}

template <class Bits>
CCLD_DEVICE_INLINE void multimem_store_scalar(uint64_t address, Bits value) {
  for_each_member(address, sizeof value, [&](char* to) __attribute__((always_inline)) {
    __atomic_store_n(reinterpret_cast<Bits*>(to), value, __ATOMIC_RELEASE);
  });
}

CCLD_DEVICE_INLINE void multimem_store_16_bytes(uint64_t address, const void* values) {
  __m128i whole;
  memcpy(&whole, values, sizeof whole);
  for_each_member(address, sizeof whole, [&](char* to) __attribute__((always_inline)) {
    asm volatile("movdqa %1,%0" : "=m"(*reinterpret_cast<__m128i*>(to)) : "x"(whole) : "memory");
  });
}

template <class Bits>
CCLD_DEVICE_INLINE void multimem_add(uint64_t address, Bits value) {
  for_each_member(address, sizeof value, [&](char* to) __attribute__((always_inline)) {
    __atomic_fetch_add(reinterpret_cast<Bits*>(to), value, __ATOMIC_RELEASE);
  });
}

}  // namespace ccld::cpu_device
