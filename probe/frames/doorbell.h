// Wakes the diagnostic thread when it rests: a thread that looks twice a second at most still notices a new operation
// at once, and the training path pays one load of a word that hardly ever changes.
//
// Contract
//   ring_if_resting() comes after the stores that announce the operation. Only the first call of a rest makes a system
//   call. doorbell_rest() declares the thread resting, asks `anything_new` once more, and waits until it is rung or
//   `until_monotonic_ns`. Store and load of the training path may be reordered; the barrier that forbids this is paid
//   by the resting side (membarrier). Where the kernel has none, a ring may be missed.
//
// Threads: ring_if_resting(), doorbell_ring(): any. The others: the diagnostic thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace ccld::probe {

inline std::atomic<uint32_t> doorbell_resting{0};

// Wakes the thread if it rests. True: it did rest.
bool doorbell_ring();

inline void ring_if_resting() {
  if (doorbell_resting.load(std::memory_order_relaxed) != 0) doorbell_ring();
}

// Before the first rest. False: rings may be missed, rest shortly.
bool doorbell_prepare();
// True: somebody rang (or there was something new), false: the time has come.
bool doorbell_rest(uint64_t until_monotonic_ns, bool (*anything_new)(void* context), void* context);

}  // namespace ccld::probe
