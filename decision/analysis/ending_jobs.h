// Jobs that end because they hang: which communicators belong to the job of a hang, and what is known of who leaves it.
// (DESIGN.md, "A job that ends"; the rules of who left because of whom are in model/departures.h.)
//
// Contract: a job is all communicators that processes connect. What is found is kept in `HangState::of_hang` of each
// watch and told to the Departures of the process table.
// Threads: those of the analyzer.
#pragma once

#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/analysis/watch.h"
#include "decision/locate/across.h"
#include "decision/model/processes.h"

namespace ccld::decision {

// What is in flight there, so that somebody could wait.
bool anybody_is_inside(const Communicator&);

class EndingJobs {
 public:
  EndingJobs(Watches& watches, ProcessTable& processes) : watches_(watches), processes_(processes) {}

  // After each look at all hangs: those that were said are hangs of their whole job, those that ended are no more.
  void mark(Nanoseconds now_ns);
  bool any_marked() const { return marked_; }
  // A process that was lost in one communicator is lost to the job. True: more is known than before.
  bool spread_losses();
  // Jobs that stood still before anybody listened: their own words say since when. Where that had been so for the
  // timeout, a hang would have been said, and whoever left since then left because of it. `timeouts_ns`: of
  // communicators that stand still. True: more is known than before.
  bool stood_before(const absl::flat_hash_map<CommUid, Nanoseconds>& timeouts_ns);
  // Forgets those that have moved since. True: some.
  bool forget_moved();
  // All processes of the job have left, as far as anybody can see.
  bool nobody_is_left(const Watch&, Nanoseconds now_ns) const;
  // Some rank's process has not left.
  static bool anybody_speaks(const Communicator&, Nanoseconds now_ns);

  // Jobs that hang, by the communicator of the cause, and processes leave because of it. Over: some left after it was
  // said, and what is known is all that will be known. Begun: some left before, so that only hard evidence counts.
  struct Ending {
    absl::flat_hash_set<CommUid> over, begun;
  };
  // `watches`: those of the stalls, in parallel.
  Ending find(const std::vector<Stall>&, const std::vector<Watch*>& watches) const;

 private:
  void mark_job(Watch& home, Nanoseconds now_ns);
  // `visit` says whether to go on from there.
  void visit_job(Watch& start, const std::function<bool(Watch&)>& visit);
  std::vector<Watch*> job_of(Watch&);

  Watches& watches_;
  ProcessTable& processes_;
  bool marked_ = false;  // some job
  absl::flat_hash_map<CommUid, Nanoseconds> stood_before_;  // of jobs that did: their last movement
};

}  // namespace ccld::decision
