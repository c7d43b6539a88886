// When a communicator is slow by the rules of the paper (section 4.2.1, equations 1 to 3): the round of the window with
// the largest T_max - T_min decides, windows do not overlap, several slow windows in a row are an anomaly, and barriers
// are dropped.
//
// Contract: time injected; one detector per communicator; rounds in any order. At most signatures_max kinds of rounds.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "decision/analysis/slow_report.h"
#include "decision/model/communicator.h"
#include "decision/paper/locate_slow.h"

namespace ccld::decision {

// Rounds are comparable if they are the same operation done the same way.
struct RoundKind {
  uint64_t count = 0;
  int32_t root = -1;
  uint8_t function = 0, datatype = 0, reduction = 0, algorithm = 0, protocol = 0;
  uint16_t channels = 0;
  bool replayed = false;          // out of a graph: launched by nobody, so its gaps are others
  uint32_t kernel_operations = 1;  // that share its kernel
  friend bool operator==(const RoundKind&, const RoundKind&) = default;
  template <class H>
  friend H AbslHashValue(H h, const RoundKind& k) {
    return H::combine(std::move(h), k.count, k.root, k.function, k.datatype, k.reduction, k.algorithm, k.protocol,
                      k.channels, k.replayed, k.kernel_operations);
  }
};
RoundKind kind_of(const Signature&);

// T_base of one kind of round: the mean of the maxima of the first m rounds, which then stays (equation 1).
class PaperBaseline {
 public:
  explicit PaperBaseline(const Settings&);
  // False while it warms up.
  bool warm(const Settings&);
  void count(double t_max_ns, const Settings&, Nanoseconds now_ns);
  double t_base_ns() const { return t_base_ns_; }  // 0: none yet
  bool is_fixed() const { return fixed_; }         // otherwise it is a configured value

 private:
  uint64_t seen_ = 0, counted_ = 0;  // rounds, warm-up included; rounds in T_base
  Nanoseconds started_ns_ = 0;
  double sum_max_ns_ = 0;
  double t_base_ns_ = 0;
  bool fixed_ = false;
};

class PaperSlowDetector {
 public:
  explicit PaperSlowDetector(const Settings& settings) : settings_(settings) {}

  void add(const Communicator&, const RoundEntry&, Nanoseconds now_ns);
  // Judges the window when it is over. `open`: an incident of this communicator is open.
  SlowReport advance(const Communicator&, bool open, Nanoseconds now_ns);

 private:
  PaperBaseline* baseline(const RoundKind&);  // nullptr: too many kinds

  const Settings& settings_;
  absl::flat_hash_map<RoundKind, PaperBaseline> baselines_;
  Nanoseconds started_ns_ = 0;  // of the window
  uint64_t rounds_ = 0;         // in it
  PaperRound worst_;            // of them
  uint64_t repeats_ = 0, clean_ = 0;
  Nanoseconds good_ns_ = 0;  // last window that was not slow, or the start
};

}  // namespace ccld::decision
