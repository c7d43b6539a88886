// Multicast addresses: behind each of them stands one piece of memory of every GPU that takes part (NVLink SHARP).
//
// Contract
//   The host side says which ranges of addresses are multicast and who knows the memory behind them. Device code asks
//   for a view: the members' memory for a stretch of such addresses. A multimem load combines all members, a store
//   reaches all of them. Nothing is mapped at the addresses themselves, so that what is not a multimem instruction ends
//   the process; the one exception are plain stores of 8 to 64 bits, which NCCL uses for its credits and for data that
//   is not aligned.
//
// Errors
//   A view of addresses that not all members have, or had, memory for ends the process with one line, as trap() does.
//
// Threads
//   Device-side functions may only be called from a fiber; each block remembers the views that it used last. Host-side
//   functions are safe from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#pragma GCC visibility push(default)

namespace ccld::cpu_device {

constexpr int max_multicast_members = 64;

// What stands behind the addresses [begin, end).
struct MulticastView {
  uint64_t begin = 1;
  uint64_t end = 0;
  int member_count = 0;
  bool whole = true;  // false: a member has taken its memory back. What is stored there is lost, nothing can be loaded
  char* members[max_multicast_members];  // each member's memory behind `begin`
  // The view holds as long as this counter has this value; nullptr: always.
  const std::atomic<uint32_t>* version = nullptr;
  uint32_t version_seen = 0;
};

// Around all multicast ranges of the process; empty when there are none.
struct MulticastHull {
  std::atomic<uint64_t> begin{UINT64_MAX};
  std::atomic<uint64_t> end{0};
};
extern MulticastHull multicast_hull;

// ---- device side -----------------------------------------------------------------------------------------------

// The view that holds all of [address, address + bytes).
const MulticastView& multicast_view(uint64_t address, uint64_t bytes);

bool is_in_multicast_range(uint64_t address);

// Costs two comparisons for any other address.
inline bool is_multicast(uint64_t address) {
  return address >= multicast_hull.begin.load(std::memory_order_relaxed) &&
         address < multicast_hull.end.load(std::memory_order_relaxed) && is_in_multicast_range(address);
}

// ---- host side -------------------------------------------------------------------------------------------------

// Finds what is behind an address of the range. Returns nullptr, or what is wrong. Called with a lock held that all
// views share.
using MulticastResolver = std::function<const char*(uint64_t address, MulticastView*)>;

void add_multicast_range(uint64_t begin, uint64_t bytes, MulticastResolver);
// Returns whether there was such a range.
bool remove_multicast_range(uint64_t begin);

}  // namespace ccld::cpu_device

#pragma GCC visibility pop
