// How many ranks of communicators the service remembers, over all of them: a rank takes some 4 KiB, and whoever reaches
// the port can claim any number. What finds no room is refused and counted, and the rest goes on.
//
// Contract: not thread-safe. A communicator gives back what it took when it is forgotten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ccld::decision {

class RankBudget {
 public:
  explicit RankBudget(uint64_t ranks_max) : ranks_max_(ranks_max) {}
  RankBudget(const RankBudget&) = delete;

  bool take(uint64_t ranks) {
    if (ranks > ranks_max_ - used_) return ++refused_, false;
    used_ += ranks;
    return true;
  }
  void give_back(uint64_t ranks) { used_ -= ranks; }
  uint64_t used() const { return used_; }
  // A sixty-fourth of it, and at most what the largest messages take, is all that is free.
  bool is_short() const { return ranks_max_ - used_ < std::min<uint64_t>(ranks_max_ / 64, 8192); }
  uint64_t refused() const { return refused_; }  // messages, so far
  // Of a rank that brought more names than it may (rank_parts.h).
  void count_names_refused() { ++names_refused_; }
  uint64_t names_refused() const { return names_refused_; }  // messages, so far

 private:
  const uint64_t ranks_max_;
  uint64_t used_ = 0, refused_ = 0, names_refused_ = 0;
};

}  // namespace ccld::decision
