// When a communicator is slow, per signature and window.
// (Paper, section 4.2.1, equations 1 to 3, barriers excluded. What follows from slow windows: analysis/slow_judge.h.)
//
//   A round that all ranks reported is taken apart on each GPU's own clock: computation is the gap between the end of
//   the previous operation and the begin of this one (kernels of other communicators taken out), communication is the
//   time since the last start. Lost time is what each exceeds its healthy mean by; the two parts add up, where P alone
//   drifts with T_base. A round is slow if it exceeds the usual T_max by slow_round_min and by its usual spread. A
//   window is slow if several rounds are, if they lost a noticeable share of the communication time and of all time,
//   more than is the habit of this job, and if one cause stays the same over its rounds. Windows overlap by half; all
//   communicators close theirs at the same instants.
//
// Contract: time injected; one detector per communicator; rounds in any order. A healthy round costs a look at each
// cell; medians and blame are for slow rounds and for the few rounds of a window from which is learnt.
#pragma once

#include <deque>
#include <vector>

#include "decision/measure/baseline.h"
#include "decision/measure/slow_links.h"
#include "decision/measure/slow_window.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

class SlowDetector {
 public:
  explicit SlowDetector(const Settings& settings) : settings_(settings), baselines_(settings) {}

  void add(const Communicator&, const RoundEntry&, Nanoseconds now_ns);
  // Closes the half of a window that is due: false if none is, or nothing was in it. `keep`: all halves, as many as are
  // kept of one cause; otherwise those of one window.
  bool close(bool keep, Nanoseconds now_ns);
  // Halves of windows, the last two of which are a window. While slow, all that have the cause: what is reported comes
  // from them.
  const std::deque<SlowWindow>& slices() const { return slices_; }
  SlowWindow last_window() const;
  // Keeps one window.
  void drop_older();
  // The window is slow.
  bool loses(const SlowWindow&) const;
  // The workload has changed: learns anew.
  void forget() { baselines_.forget(); }

 private:
  struct Parts;
  Nanoseconds slice_ns() const;
  void add(const Communicator&, KindBaseline&, const RoundEntry&, const Signature&, Parts&, Nanoseconds now_ns);
  std::vector<RankBegin> begins(const KindBaseline&, const RoundEntry&, const Parts&, Nanoseconds now_ns) const;
  void learn(const Communicator&, KindBaseline&, const RoundEntry&, const Parts&, Nanoseconds now_ns);
  void note_together(const RoundEntry&, uint64_t RoundCell::*device_ns, Nanoseconds now_ns);
  void blame(const Communicator&, const KindBaseline&, const RoundEntry&, Parts&, Nanoseconds now_ns);

  const Settings& settings_;
  Baselines baselines_;
  SlowWindow slice_;               // that goes on
  std::deque<SlowWindow> slices_;  // the last ones
  // An instant that all ranks had in common, each on its GPU's clock, modulo 2^32: when they ended a healthy round, which
  // all end together, or began one together. Begins of other rounds are compared by the time since then. 0: not known.
  std::vector<uint32_t> together_us_;
  Nanoseconds together_seen_ns_ = 0;
};

}  // namespace ccld::decision
