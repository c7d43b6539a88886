// What is seen of each rank of a communicator that stands still. Somebody may claim a communicator of 262,144 ranks:
// those near whom nobody has spoken are all alike and take no memory.
//
// Contract: plain state, not thread-safe. Costs what the pages of ranks cost that have spoken (model/rank_pages.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "decision/model/rank_pages.h"
#include "decision/model/types.h"

namespace ccld::decision {

// How far a rank came in the operation that hangs.
enum class Progress : uint8_t { unknown, not_called, called, launched, begun, done, left };

// What is known about the process of a rank.
// Not watched: its probe was stopped by an operator, so neither its silence nor its counters mean anything.
// Left: it is gone, or has aborted, because the job hung before (model/departures.h). It was well until then, and its
// last words stand.
enum class Life : uint8_t { well, stopped, gone, left, silent, host_silent, aborted, unknown, not_watched };

struct RankProgress {
  Progress progress = Progress::unknown;
  Life life = Life::well;
  // Its own snapshot or frame says so; otherwise its neighbours' lanes are the witnesses, or nobody is.
  bool own_word = false;
  // Of Send and Recv: it waits for a call that its peer is not in, which is reason enough not to move.
  bool waits_outside = false;
  bool reports() const { return life == Life::well; }
};

class RankViews {
 public:
  explicit RankViews(size_t ranks = 0) : size_(ranks) {}
  size_t size() const { return size_; }
  const RankProgress& operator[](size_t rank) const {
    const size_t slot = pages_.slot(rank);
    return slot == RankPages::none ? unheard_ : known_[slot];
  }
  // Of a rank below size(); makes room for it.
  RankProgress& at(size_t rank) {
    if (pages_.add(rank, size_)) known_.resize(pages_.slots(), unheard_);
    return known_[pages_.slot(rank)];
  }
  // A number below slots() that is its own; RankPages::none: it has no room of its own.
  size_t slot(size_t rank) const { return pages_.slot(rank); }
  size_t slots() const { return pages_.slots(); }
  // visit(rank, progress) of those that have room of their own, in their order.
  template <class Visit>
  void visit(Visit visit) const {
    visit_slots([&](Rank rank, size_t slot) { visit(rank, known_[slot]); });
  }
  // change(rank, progress) of these, and change(no rank, progress) once for all others.
  template <class Change>
  void change(Change change) {
    visit_slots([&](Rank rank, size_t slot) { change(rank, known_[slot]); });
    change(Rank{-1}, unheard_);
  }
  // How many are so.
  template <class Is>
  size_t count(Is is) const {
    size_t own = 0, out = 0;
    visit([&](Rank, const RankProgress& p) { ++own, out += is(p); });
    return own < size_ && is(unheard_) ? out + size_ - own : out;
  }
  template <class Is>
  bool any(Is is) const {
    return count(is) > 0;
  }

 private:
  template <class Visit>
  void visit_slots(Visit visit) const {
    pages_.visit([&](size_t first, size_t slot, size_t n) {
      for (size_t i = 0; i < n && first + i < size_; ++i) visit(Rank{static_cast<int32_t>(first + i)}, slot + i);
    });
  }
  size_t size_ = 0;
  RankPages pages_;
  std::vector<RankProgress> known_;  // by slot
  RankProgress unheard_{Progress::unknown, Life::unknown};
};

}  // namespace ccld::decision
