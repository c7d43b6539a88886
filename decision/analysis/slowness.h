// Slow communicators into incidents: one for a cause, however many communicators lose time by it.
// (Paper, section 4.2.2: S1 to S3 within a communicator; beyond it, only the earliest cause of lost time is a finding.)
//
// Contract: a communicator whose late ranks are themselves kept waiting in another slow communicator is a victim of
// that one and is named in its incident; communicators that blame the same process or connection share one incident,
// that of the communicator which loses the largest share of its time. Communicators are compared through the processes
// they have in common: clocks of different hosts are not.
// Threads: those of the analyzer.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/analysis/incident_writer.h"
#include "decision/analysis/iterations.h"
#include "decision/analysis/watch.h"
#include "decision/analysis/whatif_analysis.h"

namespace ccld::decision {

class SlownessAnalysis {
 public:
  SlownessAnalysis(const Settings& settings, Watches& watches, IncidentWriter& writer, IterationAnalysis& iterations,
                   const WhatIfAnalysis& whatif)
      : settings_(settings), watches_(watches), writer_(writer), iterations_(iterations), whatif_(whatif) {}

  // One communicator: takes the rounds that all ranks have reported since the last call.
  void take(Watch&, Nanoseconds now_ns);
  // Takes them, and judges windows that are over.
  void look(Watch&, Nanoseconds now_ns);
  // After all communicators were looked at: causes get incidents, victims are attached to them.
  void settle(Nanoseconds now_ns);
  // It is about to be forgotten.
  void drop(Watch&, Nanoseconds now_ns);

 private:
  Watch* cause_of(Watch&) const;       // the communicator whose loss makes this one late; itself: none
  Watch* owner_of(uint64_t incident) const;  // nullptr: none
  Watch* same_cause_as(Watch&) const;  // another communicator with an incident of the same cause; nullptr: none
  bool sees_more(const Watch&, const Watch& owner) const;
  void take_over(Watch&, Watch& owner, Nanoseconds now_ns);
  void leave_out_kept_ranks(Watch&) const;
  void weigh_late_ranks(Watch&) const;
  void report(Watch&, Nanoseconds now_ns);
  void attach(Watch&, Watch& cause, bool victim, Nanoseconds now_ns);
  void hold(Watch&, uint64_t id, SlowRole);
  void detach(Watch&, Nanoseconds now_ns);
  Finding with_others(const Watch& owner) const;

  const Settings& settings_;
  Watches& watches_;
  IncidentWriter& writer_;
  IterationAnalysis& iterations_;
  const WhatIfAnalysis& whatif_;
  std::vector<Watch*> reported_;                                // since the last settle()
  absl::flat_hash_map<uint64_t, std::vector<Watch*>> holders_;  // of each incident that is open
  absl::flat_hash_set<uint64_t> joined_;                        // incidents that got a holder since the last settle()
};

}  // namespace ccld::decision
