// The communicators of this process that progress threads may report about, found by number and without a lock.
//
// A proxy operation may outlive its communicator's last call, and may have been sent by another process; so it carries
// a name (see proxy_owner_name) that is looked up here. remove() returns only when no progress thread uses the
// communicator any more.
//
// Threads: add and remove, any thread, once each for a communicator; visit, any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "nccl/hooks/hooked_comm.h"

namespace ccld::hooks {

class WatchedComms {
 public:
  static constexpr uint32_t capacity = 1024;

  // False: the communicator's place is taken by one that is `capacity` older and still alive; its proxies stay unseen.
  bool add(ccld_comm* comm) {
    ccld_comm* expected = nullptr;
    return slot_of(comm->number).comm.compare_exchange_strong(expected, comm);
  }

  void remove(ccld_comm* comm) {
    Slot& slot = slot_of(comm->number);
    ccld_comm* expected = comm;
    if (!slot.comm.compare_exchange_strong(expected, nullptr)) return;
    while (slot.visitors.load() != 0) std::this_thread::yield();
  }

  // Calls `visit` with the communicator of that number, if there is one. The order of the two first operations, against
  // that of the two in remove(), is what keeps the communicator alive meanwhile; hence sequential consistency.
  template <class Visit>
  void visit(uint32_t number, Visit&& visit) {
    Slot& slot = slot_of(number);
    slot.visitors.fetch_add(1);
    ccld_comm* comm = slot.comm.load();
    if (comm != nullptr && comm->number == number) visit(*comm);
    slot.visitors.fetch_sub(1, std::memory_order_release);
  }

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> visitors{0};
    std::atomic<ccld_comm*> comm{nullptr};
  };

  Slot& slot_of(uint32_t number) { return slots_[number % capacity]; }

  Slot slots_[capacity];
};

// Of this process. Never destroyed: progress threads may live until the very end.
WatchedComms& watched_comms();

// A number that tells this process from the others that may serve its proxy operations.
uint32_t process_tag();
constexpr uint64_t proxy_owner_name(uint32_t tag, uint32_t comm_number) { return uint64_t{tag} << 32 | comm_number; }

}  // namespace ccld::hooks
