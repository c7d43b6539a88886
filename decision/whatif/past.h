// What the GPUs, collectives and connections of a job did in its earlier windows: the reference where there are too few
// peers, or where only the past knows that something has changed. (Paper, section 4.2.1: T_base, which is one number
// for each operation.)
//
// Contract: plain state, not thread-safe. Time is counted in windows. Bounded by past_entries_max; what was not seen
// for past_windows_max windows is forgotten.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/whatif/kinds.h"
#include "decision/whatif/peers.h"

namespace ccld::decision::whatif {

constexpr uint64_t past_windows_max = 120;  // ten minutes of half windows

// Means of the last operations, each over a few of them that follow each other.
class Means {
 public:
  void add(float mean);
  // Values of a window, at least one, in the order of time: a mean of each slow_rounds_min.
  void add(const std::vector<double>& values, const Settings&);
  size_t size() const { return means_.size(); }
  double middle() const;     // of at least one
  double deviation() const;  // standard deviation; a few outliers change nothing

 private:
  static constexpr size_t remembered_max = 24;
  std::vector<float> means_;
  uint8_t next_ = 0;
};

class Past {
 public:
  explicit Past(const Settings& settings) : settings_(settings), recurring_(settings) {}

  const Recurring& recurring() const { return recurring_; }
  // Own times beyond the usual; of kinds of work of which whatif_peers_min are known. `seldom`: what later windows are
  // to know of this one.
  Beyond compare(const Graph&, const Timeline&, const Kinds&, Seldom& seldom) const;
  // Mean times of the transfers of about so many bytes between two GPUs; nullptr: fewer than whatif_peers_min.
  const Means* transfer(int sender, int receiver, uint64_t bytes, const Timeline&) const;
  // What is not as usual is left out: `late`, by GPU, and `transfer_less_ns`, by transfer of the graph.
  void learn(const Graph&, const Timeline&, const Kinds&, const std::vector<bool>& late,
             const std::vector<double>& transfer_less_ns, const Seldom&);

 private:
  struct Usual {
    Means own_ns, host_ns;
    uint64_t last = 0;  // window in which it was seen
  };
  void learn_transfers(const Graph&, const Timeline&, const std::vector<double>& transfer_less_ns);

  const Settings& settings_;
  Recurring recurring_;
  uint64_t windows_ = 0;
  absl::flat_hash_map<uint64_t, Usual> usual_;
  struct Seen {
    Means means;
    uint64_t last = 0;
  };
  absl::flat_hash_map<uint64_t, Seen> transfers_;  // ns
};

}  // namespace ccld::decision::whatif
