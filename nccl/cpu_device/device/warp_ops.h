// Warp and block synchronisation of CUDA: __syncthreads, __syncwarp, votes, shuffles, matches.
//
// Every warp operation is one rendezvous of the engine: the lanes of the mask exchange a 64-bit value.
#pragma once

#include <cstdint>
#include <cstring>

#include "nccl/cpu_device/device/ptx_execute.h"
#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

// Releases the rendezvous when the lane has read what it needs.
class WarpExchange {
 public:
  CCLD_DEVICE_INLINE WarpExchange(uint32_t mask, uint64_t value) : rendezvous_(warp_exchange(mask, value)) {}
  CCLD_DEVICE_INLINE ~WarpExchange() { release_rendezvous(rendezvous_); }
  WarpExchange(const WarpExchange&) = delete;
  WarpExchange& operator=(const WarpExchange&) = delete;
  CCLD_DEVICE_INLINE uint64_t value(int lane) const { return rendezvous_->value[lane]; }

  // The lanes that take part and whose value equals `value`.
  CCLD_DEVICE_INLINE uint32_t lanes_with(uint64_t value) const {
    uint32_t lanes = 0;
    for (uint32_t rest = rendezvous_->mask; rest != 0; rest &= rest - 1) {
      const int lane = __builtin_ctz(rest);
      if (rendezvous_->value[lane] == value) lanes |= 1u << lane;
    }
    return lanes;
  }

 private:
  Rendezvous* rendezvous_;
};

template <class T>
CCLD_DEVICE_INLINE uint64_t to_exchange(T value) {
  static_assert(sizeof(T) <= 8, "a warp operation exchanges 8 bytes at most");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  return bits;
}

template <class T>
CCLD_DEVICE_INLINE T shuffle(unsigned mask, T value, int source_lane) {
  WarpExchange exchange(mask, to_exchange(value));
  const uint64_t bits = exchange.value(source_lane & 31);
  T result;
  memcpy(&result, &bits, sizeof(T));
  return result;
}

CCLD_DEVICE_INLINE int lane_id() { return static_cast<int>(current_fiber->lane); }

}  // namespace ccld::cpu_device

CCLD_DEVICE_INLINE void __syncthreads() { ::ccld::cpu_device::barrier(0, 0); }
CCLD_DEVICE_INLINE void __syncwarp(unsigned mask = 0xffffffffu) { ::ccld::cpu_device::WarpExchange(mask, 0); }
CCLD_DEVICE_INLINE unsigned __ballot_sync(unsigned mask, int predicate) {
  return ::ccld::cpu_device::WarpExchange(mask, predicate != 0).lanes_with(1);
}
CCLD_DEVICE_INLINE int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
CCLD_DEVICE_INLINE int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
CCLD_DEVICE_INLINE unsigned __activemask() { return 0xffffffffu; }

// Lanes outside of the segment of `width` lanes keep their own value, as in CUDA.
template <class T>
CCLD_DEVICE_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = ::ccld::cpu_device::lane_id();
  return ::ccld::cpu_device::shuffle(mask, value, (lane & ~(width - 1)) + (source & (width - 1)));
}
template <class T>
CCLD_DEVICE_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = ::ccld::cpu_device::lane_id();
  const int source = lane - static_cast<int>(delta);
  return ::ccld::cpu_device::shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
template <class T>
CCLD_DEVICE_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const int lane = ::ccld::cpu_device::lane_id();
  const int source = lane + static_cast<int>(delta);
  return ::ccld::cpu_device::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
CCLD_DEVICE_INLINE T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = ::ccld::cpu_device::lane_id();
  const int source = lane ^ lanes;
  return ::ccld::cpu_device::shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
CCLD_DEVICE_INLINE unsigned __match_any_sync(unsigned mask, T value) {
  const uint64_t bits = ::ccld::cpu_device::to_exchange(value);
  return ::ccld::cpu_device::WarpExchange(mask, bits).lanes_with(bits);
}
