// Single-word access to the frame: every word has one writer and any number of readers in other threads and processes.
//
// The frame holds plain integers, because it is an ABI and CUDA code includes it, so the compiler's atomic built-ins do
// what std::atomic does. Relaxed is enough where words are independent; release/acquire where one word vouches for
// others.
#pragma once

#include <type_traits>

namespace ccld::probe {

template <class T>
inline void store_relaxed(T& word, std::common_type_t<T> value) {
  __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}

template <class T>
inline void store_release(T& word, std::common_type_t<T> value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}

template <class T>
inline T load_relaxed(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_RELAXED);
}

template <class T>
inline T load_acquire(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

}  // namespace ccld::probe
