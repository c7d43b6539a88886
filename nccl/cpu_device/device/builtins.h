// CUDA's built-in variables, fences and integer intrinsics for device code that is compiled as plain C++.
//
// Included before upstream's device code; the names and their global scope are CUDA's. Must follow CUDA's own headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nccl/cpu_device/device/ptx_execute.h"
#include "nccl/cpu_device/engine/engine.h"

#define threadIdx (::ccld::cpu_device::current_fiber->thread_index)
#define blockIdx (::ccld::cpu_device::current_block_index)
#define blockDim (::ccld::cpu_device::current_shape.block)
#define gridDim (::ccld::cpu_device::current_shape.grid)
#undef warpSize
#define warpSize 32

#undef __launch_bounds__
#define __launch_bounds__(...)

CCLD_DEVICE_INLINE void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CCLD_DEVICE_INLINE void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CCLD_DEVICE_INLINE void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
CCLD_DEVICE_INLINE void __trap() { ::ccld::cpu_device::trap("__trap()"); }
CCLD_DEVICE_INLINE void __nanosleep(unsigned) { ::ccld::cpu_device::poll_yield(); }

// Shared memory is mapped below 4 GiB, so a generic pointer and a shared address are the same number.
CCLD_DEVICE_INLINE size_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<size_t>(p); }
CCLD_DEVICE_INLINE size_t __cvta_generic_to_global(const void* p) { return reinterpret_cast<size_t>(p); }

CCLD_DEVICE_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
CCLD_DEVICE_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
CCLD_DEVICE_INLINE int __ffs(int x) { return __builtin_ffs(x); }
CCLD_DEVICE_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
CCLD_DEVICE_INLINE int __clz(int x) { return x != 0 ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
CCLD_DEVICE_INLINE int __clzll(long long x) {
  return x != 0 ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}
CCLD_DEVICE_INLINE unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
CCLD_DEVICE_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
CCLD_DEVICE_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32) | low) >> (shift & 31));
}
CCLD_DEVICE_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((((static_cast<uint64_t>(high) << 32) | low) << (shift & 31)) >> 32);
}
CCLD_DEVICE_INLINE unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const uint64_t bytes = (static_cast<uint64_t>(b) << 32) | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned pick = selector >> (4 * i) & 0xf;
    unsigned byte = static_cast<unsigned>(bytes >> (8 * (pick & 7))) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;  // the top bit of the selector replicates the sign
    result |= byte << (8 * i);
  }
  return result;
}
template <class T>
CCLD_DEVICE_INLINE T __ldg(const T* p) {
  return *static_cast<const volatile T*>(p);
}
