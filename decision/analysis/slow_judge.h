// Slow windows of one communicator into reports: location, the repetition counter, and how many windows it takes until
// a cause is believed. Several slow windows with the same culprit make an incident.
// (Paper, section 4.2.1: repetition counter.)
//
// Contract: time injected; one judge per communicator; rounds in any order.
#pragma once

#include <optional>

#include "decision/analysis/slow_report.h"
#include "decision/detect/slow.h"

namespace ccld::decision {

class SlowJudge {
 public:
  explicit SlowJudge(const Settings& settings) : settings_(settings), detector_(settings) {}

  void add(const Communicator&, const RoundEntry&, Nanoseconds now_ns);
  // Judges the window when it is over. `open`: an incident of this communicator is open. `elsewhere`: one of its job
  // is.
  SlowReport advance(const Communicator&, bool open, bool elsewhere, Nanoseconds now_ns);

  // Slow windows in a row with the same cause, and that cause; 0: none. (For the reduction over communicators.)
  uint64_t streak() const { return repeats_; }
  const Finding& cause() const { return cause_; }
  double lost_share() const { return lost_share_; }  // of the time of the last window

 private:
  std::optional<Finding> locate(const Communicator&, const SlowWindow&, Nanoseconds now_ns) const;
  const Settings& settings_;
  SlowDetector detector_;
  uint64_t repeats_ = 0, clean_ = 0, unexplained_ = 0;
  Finding cause_;  // of the last slow window
  double lost_share_ = 0;
  Nanoseconds good_ns_ = 0;  // last window that was not slow, or the start
};

}  // namespace ccld::decision
