// Slow windows of Send and Recv in one communicator into reports; the counterpart of slow_judge.h.
//
// Contract: time injected; one judge per communicator; calls late, twice or never.
#pragma once

#include "decision/analysis/slow_report.h"
#include "decision/detect/slow_p2p.h"

namespace ccld::decision {

class SlowPairsJudge {
 public:
  explicit SlowPairsJudge(const Settings& settings) : settings_(settings), detector_(settings) {}

  void add(const Communicator&, const P2pRounds&, const ProcessModel&, Nanoseconds now_ns);
  SlowReport advance(const Communicator&, bool open, Nanoseconds now_ns);
  bool used() const { return detector_.used(); }

  // As in slow_judge.h.
  uint64_t streak() const { return repeats_; }
  const Finding& cause() const { return cause_; }
  double lost_share() const { return lost_share_; }

 private:
  const Settings& settings_;
  SlowPairsDetector detector_;
  uint64_t repeats_ = 0, clean_ = 0;
  Finding cause_;
  double lost_share_ = 0;
  Nanoseconds good_ns_ = 0;
};

}  // namespace ccld::decision
