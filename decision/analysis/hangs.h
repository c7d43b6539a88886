// Hangs of all communicators: which stand still, which of them is the cause, and the incidents of the causes.
// (Paper, section 4.2: detection and location of one communicator; beyond it, one cause for several.)
//
// A communicator that stands still for too long raises an alarm. Then the waits of all that stand still are followed
// to their ends (locate/across.h). An end becomes an incident if the timeout of somebody who waits for it is over, the
// place itself is no place where one waits for long (barriers, first operations), and the processes that are waited for
// have not moved anywhere for hang_suspect_s; or if the evidence is hard. One incident for an end, wherever it was
// noticed first: it moves to the place of the cause when that becomes known. Once processes leave a job because it
// hangs the incident stays as it is, and it ends when nobody is left.
// Threads: those of the analyzer.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/analysis/ending_jobs.h"
#include "decision/analysis/incident_writer.h"
#include "decision/analysis/init_waits.h"
#include "decision/analysis/watch.h"
#include "decision/locate/across.h"
#include "decision/model/processes.h"

namespace ccld::decision {

class HangAnalysis {
 public:
  HangAnalysis(const Settings& settings, Watches& watches, ProcessTable& processes, const InitBook& inits,
               IncidentWriter& writer)
      : settings_(settings),
        watches_(watches),
        processes_(processes),
        inits_(inits),
        writer_(writer),
        jobs_(watches, processes) {}

  // One communicator: does it stand still, or has its hang ended?
  void look(Watch&, Nanoseconds now_ns);
  // After all communicators were looked at: causes get incidents, victims are attached to them.
  void settle(Nanoseconds now_ns);
  // As of the last look.
  const InitLinks& init_links() const { return links_; }

 private:
  void settle_all(Nanoseconds now_ns);
  // Whether what moved leaves the hang as it was: further calls, or a part that still creeps.
  bool goes_on(const Watch&) const;
  void end_hang(Watch&, Nanoseconds now_ns);
  void end_job(Watch&, Nanoseconds now_ns);  // nobody is left
  // Of a job from which processes leave: who was named cannot come back, or the time of confirmation is over.
  void confirm_ending(const Watch&, Nanoseconds now_ns);
  static void forget_hang(Watch&, Nanoseconds now_ns);

  // Those that stand still; `watches` in parallel.
  std::vector<Stall> find_stalls(std::vector<Watch*>& watches, Unheard&, Nanoseconds now_ns);
  // Alarmed, but all their waits lead to what is not known: they are reported for themselves.
  void add_unexplained(const std::vector<Stall>&, const std::vector<Watch*>&, std::vector<Cause>&) const;
  bool suspicious(const Cause&, const Finding&, const std::vector<Stall>&, const std::vector<Watch*>&,
                  Nanoseconds now_ns) const;
  void report(const Cause&, Finding&, const HangView& home, const std::vector<Watch*>&, Nanoseconds now_ns);
  Nanoseconds least_stall_ns() const;  // what stands for less is not judged
  // Processes that an initialization may miss stand still because of this cause.
  bool may_wait_for(const KnownInit&, const Cause&, const std::vector<Stall>&) const;
  void take_out_inits(std::vector<Cause>&, const std::vector<Stall>&);
  bool follows_mismatch(const Cause&, const Finding&, const std::vector<Watch*>&, Nanoseconds now_ns);

  const Settings& settings_;
  Watches& watches_;
  ProcessTable& processes_;
  const InitBook& inits_;
  IncidentWriter& writer_;
  std::vector<KnownInit> initializations_;  // of the last look
  InitLinks links_;
  EndingJobs jobs_;
  bool alarmed_ = false;        // since the last look at all
  Nanoseconds settled_ns_ = 0;  // last look at all
  // What the looks of this instant have seen already: sweeps over all ranks that need not be made again.
  absl::flat_hash_map<CommUid, HangView> seen_;
};

}  // namespace ccld::decision
