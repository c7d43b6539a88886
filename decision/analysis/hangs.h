// Hangs of all communicators: which stand still, which of them is the cause, and the incidents of the causes.
// (Paper, section 4.2: detection and location of one communicator; beyond it, one cause for several.)
// Threads: those of the analyzer.
#pragma once

#include <vector>

#include "decision/analysis/incident_writer.h"
#include "decision/analysis/watch.h"
#include "decision/model/processes.h"

namespace ccld::decision {

class HangAnalysis {
 public:
  HangAnalysis(const Settings& settings, Watches& watches, const ProcessTable& processes, IncidentWriter& writer)
      : settings_(settings), watches_(watches), processes_(processes), writer_(writer) {}

  // One communicator: does it stand still, and why?
  void look(Watch&, Nanoseconds now_ns);
  // After all communicators were looked at: causes get incidents, victims are attached to them.
  void settle(Nanoseconds now_ns);

 private:
  void look_for_p2p_hang(Watch&, Nanoseconds now_ns);
  // When anything last moved on the process's other communicators.
  Nanoseconds moved_elsewhere(const ProcessModel&, CommUid except) const;
  void movement_resumed(Watch&, Nanoseconds now_ns);
  void end_hang(Watch&, Nanoseconds now_ns);
  void describe_cycle(Watch&, const std::vector<CommUid>& cycle);
  void settle_hang(Watch&, Finding&, Nanoseconds now_ns);

  const Settings& settings_;
  Watches& watches_;
  const ProcessTable& processes_;
  IncidentWriter& writer_;
};

}  // namespace ccld::decision
