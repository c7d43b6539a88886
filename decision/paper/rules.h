// rules=paper: detection and location as published (section 4.2), one communicator at a time, to measure both rule sets
// on the same telemetry. Instead of the analysis of rules=measured, with the same model and the same incidents.
// Threads: those of the analyzer.
#pragma once

#include <map>

#include "decision/analysis/incident_writer.h"
#include "decision/analysis/watch.h"
#include "decision/model/processes.h"
#include "decision/paper/hang.h"
#include "decision/paper/slow.h"

namespace ccld::decision {

class PaperRules {
 public:
  PaperRules(const Settings& settings, Watches& watches, const ProcessTable& processes, IncidentWriter& writer)
      : settings_(settings), watches_(watches), processes_(processes), writer_(writer) {}

  // One communicator: takes the rounds that all ranks have reported since the last call.
  void take(Watch&, Nanoseconds now_ns);
  // Looks at all communicators.
  void advance(Nanoseconds now_ns);
  // It is about to be forgotten.
  void drop(const Watch&, Nanoseconds now_ns);

 private:
  struct State {
    explicit State(const Settings& settings) : slow(settings) {}
    PaperHangDetector hang;
    PaperSlowDetector slow;
    bool stuck = false;
    uint64_t hang_incident = 0, slow_incident = 0;
    RoundKey hang_key;           // what hangs, as of the last look
    Nanoseconds located_ns = 0;  // last look
    Nanoseconds moved_ns = 0;    // movement known when it was suspected
    SlowReport slow_report;      // the newest
  };
  State& state_of(const Watch&);
  void add(Watch&, State&, const RoundEntry&, Nanoseconds now_ns);
  void look_for_slowness(Watch&, State&, Nanoseconds now_ns);
  void look_for_hang(const Watch&, State&, Nanoseconds now_ns);
  void end_hang(State&, Nanoseconds now_ns);
  void end_slowness(State&, Nanoseconds now_ns);
  // True: its incident was known before, and is to be updated.
  bool report_slowness(const Watch&, State&, Nanoseconds now_ns);

  const Settings& settings_;
  Watches& watches_;
  const ProcessTable& processes_;
  IncidentWriter& writer_;
  std::map<CommUid, State> states_;
};

}  // namespace ccld::decision
