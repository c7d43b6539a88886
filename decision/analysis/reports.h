// What ranks and processes report, into the models of who they are; operations that all ranks have ended, to the
// analyses that want them. Reports that came together wait, so that several threads can take them in (intake.h).
// Threads: those of the analyzer.
#pragma once

#include <functional>
#include <utility>

#include "decision/analysis/call_records.h"
#include "decision/analysis/intake.h"
#include "decision/analysis/iterations.h"
#include "decision/analysis/whatif_analysis.h"
#include "decision/workers.h"

namespace ccld::decision {

class Reports {
 public:
  // `other_rules` take the operations that all ranks have ended, in place of the default ones; empty: these.
  using OtherRules = std::function<void(Watch&, Nanoseconds now_ns)>;
  Reports(Workers& workers, IterationAnalysis& iterations, WhatIfAnalysis& whatif, CallRecords& calls,
          OtherRules other_rules)
      : workers_(workers),
        iterations_(iterations),
        whatif_(whatif),
        calls_(calls),
        other_rules_(std::move(other_rules)) {}

  // Of a process about itself: Metrics or NetQueues. It waits.
  void add(ProcessModel& process, const Payload& payload) { intake_.add(process, payload); }
  // Of a rank: Rounds, P2pRounds or InFlight. It waits if it changes nothing but its communicator and its process.
  void add(Watch&, ProcessModel&, const Payload&, Nanoseconds now_ns);
  static bool wait_of(const ProcessModel& process) { return Intake::waits(process); }
  // All that wait. `heard_ns`: when the newest of them came.
  void take_in(Nanoseconds heard_ns);

  // Operations that all ranks have ended.
  void take_rounds(Watch&, Nanoseconds now_ns);
  // Those of which some reports were lost: they still say where ranks wait.
  void take_overdue_rounds(Watch&, Nanoseconds now_ns);

 private:
  void take_in(Watch&, const Report&, Nanoseconds now_ns);
  void take_complete(Watch&, Nanoseconds now_ns);
  void settle(Watch&, Nanoseconds now_ns);

  Workers& workers_;
  IterationAnalysis& iterations_;
  WhatIfAnalysis& whatif_;
  CallRecords& calls_;
  const OtherRules other_rules_;
  Intake intake_;
};

}  // namespace ccld::decision
