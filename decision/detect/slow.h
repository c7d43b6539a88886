// When a communicator is slow, per signature and window.
// (Paper, section 4.2.1, equations 1 to 3, repetition counter, barriers excluded. Section 4.2.2, equation 4, as
// evidence and for rules=paper.)
//
// Measured rules
//   A round that all ranks reported is taken apart on each GPU's own clock: computation is the gap between the end of
//   the previous operation and the begin of this one (kernels of other communicators taken out), communication is the
//   time since the last start. Lost time is what each exceeds its healthy mean by; the two parts add up, where P alone
//   drifts with T_base. A window is slow if several rounds exceed theta, if they lost a noticeable share of the
//   communication time, and if one cause stays the same over its rounds. Several slow windows with the same culprit
//   make an incident.
// Paper rules
//   The round of the window with the largest T_max - T_min decides.
//
// Contract: time injected; one detector per communicator; rounds in any order.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/locate/finding.h"
#include "decision/model/baseline.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

struct EdgeLoss {
  double waited_ns[stage_count] = {};  // steps x mean time beyond the healthy one
  double steps = 0;
  int net_device = -1;
};

// What the rounds of a window add up to.
struct SlowWindow {
  Nanoseconds started_ns = 0;
  uint64_t rounds = 0, slow_rounds = 0;
  double comm_time_ns = 0;      // sum of T_max
  double lost_ns = 0;           // of slow rounds: T_max - T_base
  double base_ns = 0;           // of slow rounds: T_base
  double computation_ns = 0;    // of slow rounds: computation beyond its healthy skew
  double communication_ns = 0;  // of slow rounds: communication beyond its healthy time
  double elsewhere_ns = 0;      // of slow rounds: skew that other communicators caused
  double staged_ns = 0;         // communication_ns of the rounds that have stages of links
  std::vector<double> rank_lost_ns, rank_queued_ns;
  std::vector<uint32_t> rank_late;  // slow rounds in which the rank was among the last
  absl::flat_hash_map<Edge, EdgeLoss> edges;
  OpSeq first_slow_op;
  Signature signature;  // of the slow rounds: the first

  // The round with the largest T_max - T_min of comparable ranks (equation 2).
  struct Worst {
    double range_ns = -1, t_max_ns = 0, t_min_ns = 0, t_base_ns = 0;
    OpSeq op;
    Signature signature;
    bool base_is_fixed = false;
    std::vector<Nanoseconds> durations_ns;  // by rank
    std::vector<uint32_t> send_changes, recv_changes;
    double ratio() const { return t_base_ns > 0 ? (t_max_ns - t_base_ns) / t_base_ns : 0; }
    double p() const { return t_max_ns > t_base_ns ? (t_max_ns - t_min_ns) / (t_max_ns - t_base_ns) : 0; }
  } worst;
};

// As if it had been one window.
SlowWindow merge(const std::deque<SlowWindow>&);

enum class SlowEvent { none, suspect, confirm, resolve };

struct SlowReport {
  SlowEvent event = SlowEvent::none;
  Finding finding;
  Nanoseconds onset_ns = 0;
};

class SlowDetector {
 public:
  explicit SlowDetector(const Settings& settings) : settings_(settings), baselines_(settings) {}

  void add(const Communicator&, const RoundEntry&, Nanoseconds now_ns);
  // Closes the window when it is due. `open`: an incident of this communicator is open.
  SlowReport advance(const Communicator&, bool open, Nanoseconds now_ns);

 private:
  void learn(KindBaseline&, const RoundEntry&, const struct RoundParts&);
  void learn_edges(KindBaseline&, const std::vector<std::pair<Edge, struct EdgeIntervals>>&);
  void blame(const Communicator&, const KindBaseline&, const RoundEntry&, const struct RoundParts&,
             const std::vector<std::pair<Edge, struct EdgeIntervals>>&);
  void consider_worst(const Communicator&, const KindBaseline&, const RoundEntry&, const Signature&);

  const Settings& settings_;
  Baselines baselines_;
  SlowWindow window_;
  uint64_t repeats_ = 0, clean_ = 0;
  std::deque<SlowWindow> recent_;  // the last slow windows with one cause: what is reported comes from all of them
  Finding cause_;                  // of the last of them
  Nanoseconds good_ns_ = 0;        // last window that was not slow, or the start
};

}  // namespace ccld::decision
