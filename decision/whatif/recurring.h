// Work of which there is one or two in a window: what it takes beyond the usual, window by window. So what a GPU needs
// longer once in each iteration is told from what it needed longer once.
//
// Contract: plain state, not thread-safe. Bounded by recurring_entries_max, beyond which all is forgotten: where sizes
// are never the same again nothing recurs. What was not seen for recurring_windows_max windows is forgotten, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/settings.h"

namespace ccld::decision::whatif {

// Of a window: by the work of a GPU and what it is compared with, what it took beyond that each time.
using Seldom = absl::flat_hash_map<uint64_t, std::vector<float>>;

class Recurring {
 public:
  explicit Recurring(const Settings& settings) : settings_(settings) {}

  // Whether a window holds too little of it to tell a habit.
  bool is_seldom(size_t times) const { return times < settings_.slow_rounds_min; }
  // `now`: of this window. Whether it took half as long and more slow_rounds_min times, and in a good part
  // (whatif_recurs_min) of the newest times, of which 3 slow_rounds_min are remembered.
  bool recurs(uint64_t key, const std::vector<float>& now) const;
  void add(const Seldom&);

 private:
  struct Values {
    std::vector<float> ns;  // the oldest first
    uint64_t last = 0;      // window
  };
  const Settings& settings_;
  uint64_t windows_ = 0;
  absl::flat_hash_map<uint64_t, Values> values_;
};

}  // namespace ccld::decision::whatif
