// When a communicator is slow, per signature and window.
// (Paper, section 4.2.1, equations 1 to 3, repetition counter, barriers excluded. Section 4.2.2, equation 4, as
// evidence and for rules=paper.)
//
// Measured rules
//   A round that all ranks reported is taken apart on each GPU's own clock: computation is the gap between the end of
//   the previous operation and the begin of this one (kernels of other communicators taken out), communication is the
//   time since the last start. Lost time is what each exceeds its healthy mean by; the two parts add up, where P alone
//   drifts with T_base. A round is slow if it exceeds the usual T_max by slow_round_min and by its usual spread. A
//   window is slow if several rounds are, if they lost a noticeable share of the communication time and of all time,
//   more than is the habit of this job, and if one cause stays the same over its rounds. Windows overlap by half; all
//   communicators close theirs at the same instants. Several slow windows with the same culprit make an incident.
// Paper rules
//   The round of the window with the largest T_max - T_min decides; windows do not overlap.
//
// Contract: time injected; one detector per communicator; rounds in any order. A healthy round costs a look at each
// cell; medians and blame are for slow rounds and for the few rounds of a window from which is learnt.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "decision/detect/slow_links.h"
#include "decision/detect/slow_window.h"
#include "decision/locate/finding.h"
#include "decision/model/baseline.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

enum class SlowEvent { none, suspect, confirm, resolve };

struct SlowReport {
  SlowEvent event = SlowEvent::none;
  Finding finding;
  Nanoseconds onset_ns = 0;
  double lost_ns = 0;  // per second of the windows it speaks of
};

class SlowDetector {
 public:
  explicit SlowDetector(const Settings& settings) : settings_(settings), baselines_(settings) {}

  void add(const Communicator&, const RoundEntry&, Nanoseconds now_ns);
  // Closes the window when it is due. `open`: an incident of this communicator is open. `elsewhere`: one of its job is.
  SlowReport advance(const Communicator&, bool open, bool elsewhere, Nanoseconds now_ns);

  // Slow windows in a row with the same cause, and that cause; 0: none. (For the reduction over communicators.)
  uint64_t streak() const { return repeats_; }
  const Finding& cause() const { return cause_; }
  double lost_share() const { return lost_share_; }  // of the time of the last window

 private:
  struct Parts;
  Nanoseconds slice_ns() const;
  void add_paper(const Communicator&, KindBaseline&, const RoundEntry&, const Signature&, Nanoseconds now_ns);
  void add_measured(const Communicator&, KindBaseline&, const RoundEntry&, const Signature&, Parts&, Nanoseconds now_ns);
  std::vector<RankBegin> begins(const KindBaseline&, const RoundEntry&, const Parts&, Nanoseconds now_ns) const;
  void learn(const Communicator&, KindBaseline&, const RoundEntry&, const Parts&, Nanoseconds now_ns);
  void note_together(const RoundEntry&, uint64_t RoundCell::*device_ns, Nanoseconds now_ns);
  void blame(const Communicator&, const KindBaseline&, const RoundEntry&, Parts&, Nanoseconds now_ns);
  bool loses(const SlowWindow&) const;
  std::optional<Finding> locate(const Communicator&, const SlowWindow&, Nanoseconds now_ns) const;
  SlowReport judge(const Communicator&, bool open, bool elsewhere, Nanoseconds now_ns);

  const Settings& settings_;
  Baselines baselines_;
  SlowWindow slice_;                // of paper rules: the window; otherwise half of one
  std::deque<SlowWindow> slices_;   // the last ones; while slow, all that have the cause: what is reported comes from them
  uint64_t repeats_ = 0, clean_ = 0, unexplained_ = 0;
  Finding cause_;                   // of the last slow window
  double lost_share_ = 0;
  Nanoseconds good_ns_ = 0;         // last window that was not slow, or the start
  // An instant that all ranks had in common, each on its GPU's clock, modulo 2^32: when they ended a healthy round, which
  // all end together, or began one together. Begins of other rounds are compared by the time since then. 0: not known.
  std::vector<uint32_t> together_us_;
  Nanoseconds together_seen_ns_ = 0;
};

}  // namespace ccld::decision
