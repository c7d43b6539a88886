// The job's own rank of every culprit, beside that of the communicator in which it was noticed: what `RANK` is to
// torchrun. It is the rank in the communicator that has all GPUs of the job, if the job made one.
// Cost: O(ranks of the job) at most once in `known_for_ns`, while an incident of the job changes. Threads: those of the
// analyzer.
#pragma once

#include <map>
#include <string>

#include "decision/analysis/incident_book.h"
#include "decision/analysis/watch.h"

namespace ccld::decision {

class JobRanks {
 public:
  // A job may make further communicators meanwhile.
  static constexpr Nanoseconds known_for_ns = 10 * ns_per_s;

  // Of the incidents that have changed.
  void name(IncidentBook&, const Watches&, Nanoseconds now_ns);

 private:
  struct World {
    CommUid comm;  // 0: no communicator has all GPUs of the job
    Nanoseconds found_ns = 0;
  };
  const Communicator* world_of(const std::string& job, const Watches&, Nanoseconds now_ns);

  std::map<std::string, World> worlds_;  // by job
};

}  // namespace ccld::decision
