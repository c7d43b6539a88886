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

// Means over the last windows.
class Windows {
 public:
  void add(float mean);
  size_t size() const { return means_.size(); }
  double middle() const;     // of at least one
  double deviation() const;  // the middle distance from it

 private:
  static constexpr size_t remembered_max = 12;
  std::vector<float> means_;
  uint8_t next_ = 0;
};

class Past {
 public:
  explicit Past(const Settings& settings) : settings_(settings) {}

  // Own times beyond those of earlier windows; of GPUs that are known for whatif_past_windows_min of them.
  Beyond compare(const Graph&, const Timeline&, const Kinds&) const;
  // Mean times of the transfers of so many bytes between two GPUs; nullptr: not known for whatif_past_windows_min of
  // them.
  const Windows* transfer(int sender, int receiver, uint64_t bytes, const Timeline&) const;
  // `compared`: what compare() said. What is not as usual is left out: `late`, by GPU, and `transfer_less_ns`, by
  // transfer of the graph.
  void learn(const Graph&, const Timeline&, const Kinds&, const Beyond& compared, const std::vector<bool>& late,
             const std::vector<double>& transfer_less_ns);

 private:
  struct Usual {
    Windows own_ns, host_ns;
    // Of the first window, and then fixed: what is learnt of links is what it would be at these launches.
    float queued_ns = 0;
    uint64_t seen = 0;  // last window
  };
  void leave_out_common(const Graph&, const Timeline&, Beyond&) const;
  void learn_transfers(const Graph&, const Timeline&, const std::vector<double>& transfer_less_ns);
  void forget();

  const Settings& settings_;
  uint64_t windows_ = 0;
  absl::flat_hash_map<uint64_t, Usual> usual_;
  struct Seen {
    Windows windows;
    uint64_t last = 0;
  };
  absl::flat_hash_map<uint64_t, Seen> transfers_;  // ns
  absl::flat_hash_map<GpuKey, Seen> part_;         // of the length, by which a GPU is beyond it
};

}  // namespace ccld::decision::whatif
