// Finds a queue by its identity where nothing else can carry a pointer: completions of InfiniBand name only their
// device and queue pair number.
//
// Contract
//   find() looks at one cache line of eight identities, takes no lock and allocates nothing. add() fails when the eight
//   places of a set are taken: with 256 queues in 256 sets that practically does not happen. Identities are not 0.
//
// Threads: find, any thread; add and remove, any thread (they lock). find() may miss a queue that is being added or
// removed at that moment, and never returns another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace ccld::probe {

template <class Queue>
class QueueTable {
 public:
  Queue* find(uint64_t identity) const {
    const Set& set = sets_[set_of(identity)];
    for (unsigned way = 0; way < ways; ++way) {
      if (set.identities[way].load(std::memory_order_acquire) != identity) continue;
      Queue* queue = set.queues[way].load(std::memory_order_acquire);
      // Still its own: a place is taken by another only after its identity was cleared.
      return set.identities[way].load(std::memory_order_acquire) == identity ? queue : nullptr;
    }
    return nullptr;
  }

  bool add(uint64_t identity, Queue* queue) {
    std::lock_guard<std::mutex> lock(mutex_);
    Set& set = sets_[set_of(identity)];
    for (unsigned way = 0; way < ways; ++way) {
      if (set.identities[way].load(std::memory_order_relaxed) != 0) continue;
      set.queues[way].store(queue, std::memory_order_release);
      set.identities[way].store(identity, std::memory_order_release);
      return true;
    }
    return false;
  }

  // The queue that it was, or nullptr.
  Queue* remove(uint64_t identity) {
    std::lock_guard<std::mutex> lock(mutex_);
    Set& set = sets_[set_of(identity)];
    for (unsigned way = 0; way < ways; ++way) {
      if (set.identities[way].load(std::memory_order_relaxed) != identity) continue;
      set.identities[way].store(0, std::memory_order_release);
      return set.queues[way].load(std::memory_order_relaxed);
    }
    return nullptr;
  }

 private:
  static constexpr unsigned ways = 8;
  static constexpr unsigned sets_bits = 8;
  struct alignas(64) Set {
    std::atomic<uint64_t> identities[ways] = {};
    std::atomic<Queue*> queues[ways] = {};
  };

  static unsigned set_of(uint64_t identity) {
    return static_cast<unsigned>((identity * 0x9e3779b97f4a7c15u) >> (64 - sets_bits));
  }

  std::mutex mutex_;
  Set sets_[1u << sets_bits];
};

}  // namespace ccld::probe
