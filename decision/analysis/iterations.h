// Iteration times of jobs: which communicators are witnesses, and incidents of jobs that got slow as a whole although
// every round may look fair. (Beyond the paper: the tracking of iteration times that fail-slow detection uses.)
//
// Contract: a job has at most one such incident, and none while another incident of the job is open: what is slow or
// hangs explains it. When the slow rounds' own incident comes later, it takes over this one's number.
// Threads: those of the analyzer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/analysis/incident_writer.h"
#include "decision/analysis/watch.h"

namespace ccld::decision {

class IterationAnalysis {
 public:
  IterationAnalysis(const Settings& settings, Watches& watches, IncidentWriter& writer)
      : settings_(settings), watches_(watches), writer_(writer) {}

  // Once it has chosen whether this communicator is a witness, it changes nothing but what is known of that one.
  void add(Watch&, const RoundEntry&, Nanoseconds now_ns);
  bool has_chosen(const Watch& w) const {
    return w.iterations || w.no_witness || w.comm.rank_count() < 2 || settings_.iteration_witnesses_max == 0;
  }
  void settle(Nanoseconds now_ns);
  void drop(Watch&, Nanoseconds now_ns);

  // Whether a cause was seen that may become an incident: then it is not for this analysis to speak.
  void suspect(const std::string& job, bool suspected);
  // A slow communicator of the job explains its incident, if there is one; then that belongs to the caller. 0: none.
  uint64_t explain(const Watch&);

  // The job's incident, while nothing explains it; 0: none.
  uint64_t incident(const std::string& job) const;

  // The job's iteration time before the newest change and now, as the witness with the longest iterations saw it.
  struct View {
    double usual_ns = 0;  // 0: not known, because the change came before iteration_verify_min samples
    double now_ns = 0;
  };
  std::optional<View> view(const std::string& job) const;
  // A witness that does the same operations as this communicator; nullptr: none.
  const IterationTimes* witness_like(const Watch&) const;

 private:
  struct Job {
    std::vector<Watch*> witnesses;
    std::map<int, size_t> shapes;  // witnesses by number of ranks
    uint64_t incident = 0;
    bool suspected = false;        // somebody counts a cause
    bool explained = false;        // the rise that lasts has an incident of its own
  };
  bool explained_elsewhere(const std::string& job) const;
  Finding describe(const Job&, const Watch& leading, const IterationChange&) const;
  void look(const std::string& name, Job&, Nanoseconds now_ns);

  const Settings& settings_;
  Watches& watches_;
  IncidentWriter& writer_;
  std::map<std::string, Job> jobs_;
  Nanoseconds looked_ns_ = 0;
};

}  // namespace ccld::decision
