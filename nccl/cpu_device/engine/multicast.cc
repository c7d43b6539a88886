#include "nccl/cpu_device/engine/multicast.h"

#include <map>
#include <memory>
#include <mutex>

#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

MulticastHull multicast_hull;

namespace {

struct Range {
  uint64_t end;
  MulticastResolver resolver;
};

struct State {
  std::mutex mutex;
  std::map<uint64_t, Range> ranges;  // by begin
  std::atomic<uint64_t> epoch{1};    // changes with `ranges`
};

// Blocks may still run while the process exits: never destroyed.
State& state() {
  static State* const instance = new State;
  return *instance;
}

// With the lock held.
void update_hull() {
  const auto& ranges = state().ranges;
  multicast_hull.begin = ranges.empty() ? UINT64_MAX : ranges.begin()->first;
  multicast_hull.end = ranges.empty() ? 0 : ranges.rbegin()->second.end;
  ++state().epoch;
}

// With the lock held.
const Range* find_range(uint64_t address) {
  auto next = state().ranges.upper_bound(address);
  if (next == state().ranges.begin()) return nullptr;
  const Range& range = std::prev(next)->second;
  return address < range.end ? &range : nullptr;
}

// A kernel uses a few stretches in turns: buffers and credits.
constexpr int remembered_views = 4;

struct Remembered {
  uint64_t epoch = 0;
  int next = 0;
  MulticastView views[remembered_views];
  uint64_t gap_begin = 0, gap_end = 0;  // between two ranges: nothing in it is multicast
};
// Little of the static room for thread-local data is left where this library is opened late (dlopen): on the heap, once
// for each thread.
Remembered& remembered() {
  thread_local const std::unique_ptr<Remembered> own(new Remembered);
  return *own;
}

bool remembers_well() { return remembered().epoch == state().epoch.load(std::memory_order_acquire); }

// With the lock held.
void forget_what_changed() {
  if (!remembers_well()) {
    remembered() = Remembered{};
    remembered().epoch = state().epoch;
  }
}

bool holds(const MulticastView& view, uint64_t begin, uint64_t end) {
  return begin >= view.begin && end <= view.end &&
         (view.version == nullptr || view.version->load(std::memory_order_acquire) == view.version_seen);
}

const MulticastView& resolve(uint64_t address, uint64_t end) {
  std::lock_guard<std::mutex> lock(state().mutex);
  forget_what_changed();
  const Range* range = find_range(address);
  if (range == nullptr) trap("a multimem instruction on an address that is not of a multicast object");
  Remembered& mine = remembered();
  MulticastView& view = mine.views[mine.next];
  mine.next = (mine.next + 1) % remembered_views;
  const char* problem = range->resolver(address, &view);
  if (problem != nullptr) trap(problem);
  if (address < view.begin || end > view.end) trap("a multimem access reaches beyond the memory that is bound there");
  return view;
}

}  // namespace

const MulticastView& multicast_view(uint64_t address, uint64_t bytes) {
  const uint64_t end = address + bytes;
  if (remembers_well()) {
    for (const MulticastView& view : remembered().views) {
      if (holds(view, address, end)) return view;
    }
  }
  return resolve(address, end);
}

bool is_in_multicast_range(uint64_t address) {
  if (remembers_well()) {
    if (address >= remembered().gap_begin && address < remembered().gap_end) return false;
    for (const MulticastView& view : remembered().views) {
      if (address >= view.begin && address < view.end) return true;
    }
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  forget_what_changed();
  if (find_range(address) != nullptr) return true;
  const auto next = state().ranges.upper_bound(address);
  remembered().gap_begin = next == state().ranges.begin() ? 0 : std::prev(next)->second.end;
  remembered().gap_end = next == state().ranges.end() ? UINT64_MAX : next->first;
  return false;
}

void add_multicast_range(uint64_t begin, uint64_t bytes, MulticastResolver resolver) {
  std::lock_guard<std::mutex> lock(state().mutex);
  state().ranges[begin] = {begin + bytes, std::move(resolver)};
  update_hull();
}

bool remove_multicast_range(uint64_t begin) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const bool found = state().ranges.erase(begin) != 0;
  if (found) update_hull();
  return found;
}

}  // namespace ccld::cpu_device
