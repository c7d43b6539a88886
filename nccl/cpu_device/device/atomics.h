// CUDA's atomic functions, and an atomic_ref whose load lets the other threads of the block run.
#pragma once

#include <cuda/atomic>

#include "nccl/cpu_device/device/ptx_execute.h"
#include "nccl/cpu_device/engine/engine.h"

template <class T, class U>
CCLD_DEVICE_INLINE T atomicAdd(T* p, U value) {
  return __atomic_fetch_add(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class U>
CCLD_DEVICE_INLINE T atomicSub(T* p, U value) {
  return __atomic_fetch_sub(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class U>
CCLD_DEVICE_INLINE T atomicOr(T* p, U value) {
  return __atomic_fetch_or(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class U>
CCLD_DEVICE_INLINE T atomicAnd(T* p, U value) {
  return __atomic_fetch_and(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class U>
CCLD_DEVICE_INLINE T atomicExch(T* p, U value) {
  return __atomic_exchange_n(p, static_cast<T>(value), __ATOMIC_RELAXED);
}
template <class T, class U, class V>
CCLD_DEVICE_INLINE T atomicCAS(T* p, U compare, V value) {
  T expected = static_cast<T>(compare);
  __atomic_compare_exchange_n(p, &expected, static_cast<T>(value), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T, class U>
CCLD_DEVICE_INLINE T atomicMax(T* p, U value) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < static_cast<T>(value) &&
         !__atomic_compare_exchange_n(p, &old, static_cast<T>(value), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}
template <class T, class U>
CCLD_DEVICE_INLINE T atomicMin(T* p, U value) {
  T old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old > static_cast<T>(value) &&
         !__atomic_compare_exchange_n(p, &old, static_cast<T>(value), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

namespace cuda {

// What upstream's PAT code polls with; the transform puts it in the place of cuda::atomic_ref there.
template <class T, thread_scope Scope>
class ccld_polling_atomic_ref : public atomic_ref<T, Scope> {
 public:
  explicit ccld_polling_atomic_ref(T& object) : atomic_ref<T, Scope>(object) {}
  T load(memory_order order = memory_order_seq_cst) const {
    T value = atomic_ref<T, Scope>::load(order);
    ::ccld::cpu_device::poll_yield();
    return value;
  }
};

}  // namespace cuda
