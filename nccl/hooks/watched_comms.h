// The communicators of this process that progress threads may report about, found by a number and without a lock.
//
// A proxy operation may outlive its communicator's last call, and may have been sent by another process; so it carries
// a name (see proxy_owner_name) that is looked up here. remove() returns only when no progress thread uses the
// communicator any more. A place is used again, but never with the same number: a late operation of a communicator that
// is gone finds nothing (until a place has been used four million times).
//
// Threads: add and remove, any thread, once each for a communicator; visit, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

#include "nccl/hooks/hooked_comm.h"

namespace ccld::hooks {

class WatchedComms {
 public:
  static constexpr uint32_t capacity_bits = 10;
  static constexpr uint32_t capacity = 1u << capacity_bits;  // communicators that live at the same time

  // Gives the communicator its number (ccld_comm::watch). False: `capacity` others are alive; its proxies stay unseen.
  bool add(ccld_comm* comm) {
    std::lock_guard<std::mutex> lock(places_);
    for (uint32_t tried = 0; tried < capacity; ++tried) {
      const uint32_t place = next_place_++ % capacity;
      Slot& slot = slots_[place];
      if (slot.comm.load() != nullptr) continue;
      slot.uses = (slot.uses + 1) & (UINT32_MAX >> capacity_bits);
      if (slot.uses == 0) slot.uses = 1;  // number 0 is nobody's
      comm->watch = slot.uses << capacity_bits | place;
      slot.comm.store(comm);
      return true;
    }
    comm->watch = 0;
    return false;
  }

  void remove(ccld_comm* comm) {
    if (comm->watch == 0) return;
    Slot& slot = slot_of(comm->watch);
    ccld_comm* expected = comm;
    if (!slot.comm.compare_exchange_strong(expected, nullptr)) return;
    while (slot.visitors.load() != 0) std::this_thread::yield();
  }

  // Calls `visit` with the communicator of that number, if there is one. The order of the two first operations, against
  // that of the two in remove(), is what keeps the communicator alive meanwhile; hence sequential consistency.
  template <class Visit>
  void visit(uint32_t watch, Visit&& visit) {
    Slot& slot = slot_of(watch);
    slot.visitors.fetch_add(1);
    ccld_comm* comm = slot.comm.load();
    if (comm != nullptr && comm->watch == watch) visit(*comm);
    slot.visitors.fetch_sub(1, std::memory_order_release);
  }

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> visitors{0};
    std::atomic<ccld_comm*> comm{nullptr};
    uint32_t uses = 0;  // guarded by places_
  };

  Slot& slot_of(uint32_t watch) { return slots_[watch % capacity]; }

  std::mutex places_;
  uint32_t next_place_ = 0;  // guarded by places_
  Slot slots_[capacity];
};

// Of this process. Never destroyed: progress threads may live until the very end.
WatchedComms& watched_comms();

// A number that tells this process from the others that may serve its proxy operations.
uint32_t process_tag();
constexpr uint64_t proxy_owner_name(uint32_t tag, uint32_t watch) { return uint64_t{tag} << 32 | watch; }

}  // namespace ccld::hooks
