// Slowness of a job by what it would gain: ranks and connections that differ from their peers or from their past, also
// from the job's first iterations on, and also those that only Send and Recv use. (Beyond the paper; whatif/ has the
// model.)
//
// Contract: a job is judged once in half a slow_window_s, on the timeline of all its GPUs; less often where its
// iterations are longer, where it has few kernels, or where causes come and go. A cause that is seen in slow_repeat + 1
// of these windows (a prolonged one counts as two, one without it against it) becomes an incident, unless another
// incident of that job is open; one more window confirms it, or a later one while further causes are seen that are not
// sure yet. It is resolved after slow_clean_windows of slow_window_s without it, and no sooner than chance
// (slow_clean_chance_max) explains them no more. In the first whatif_starting_windows of a job nothing is said of the
// network, nor of what only the past tells. Threads: those of the analyzer.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include "decision/analysis/focus.h"
#include "decision/analysis/incident_writer.h"
#include "decision/analysis/iterations.h"
#include "decision/analysis/watch.h"
#include "decision/analysis/whatif_suspects.h"
#include "decision/measure/machine_clocks.h"
#include "decision/whatif/step_past.h"
#include "decision/timeline/timeline.h"

namespace ccld::decision {

class WhatIfAnalysis {
 public:
  WhatIfAnalysis(const Settings& settings, Watches& watches, IncidentWriter& writer, IterationAnalysis& iterations)
      : settings_(settings), watches_(watches), writer_(writer), iterations_(iterations) {}

  // What a rank's GPU did; `m` is Rounds or P2pRounds. A device below 0: it is not known yet.
  template <class Message>
  void add(const Communicator& comm, whatif::GpuKey gpu, const Message& m, Nanoseconds now_ns) {
    if (settings_.whatif_gpus_max == 0 || gpu.second < 0 || m.rounds.empty()) return;
    if constexpr (std::is_same_v<Message, Rounds>)
      job(comm.job(), now_ns).timeline.add(gpu, m, comm.rank_count());
    else
      job(comm.job(), now_ns).timeline.add(gpu, m);
  }
  // A round that most ranks have reported: of a job that is too large to be looked at as a whole, it says where to
  // look. Changes nothing but what is known of that communicator.
  void add(Watch& w, const RoundEntry& e) const {
    if (const auto job = jobs_.find(w.comm.job()); job != jobs_.end() && job->second.large) Focus::add(w, e);
  }
  // Judges windows that are over.
  void settle(Nanoseconds now_ns) {
    for (auto& [name, job] : jobs_)
      if (is_due(job, now_ns)) judge(name, job, now_ns);
    forget(now_ns);
  }

 private:
  // One cause, as it is recognised in the next window.
  struct Seen {
    uint64_t streak = 0;              // half windows with it, less those without
    uint64_t windows = 0;             // in which it was seen
    uint64_t transfers = 0;           // of Send and Recv, in these
    bool missed = false;              // not in the newest one
    double late_ns = 0, host_ns = 0;  // gains over the streak, and of them those of a late host
    std::set<CommUid> comms;          // in whose operations it shows; none: in all
    Nanoseconds since_ns = 0;         // begin of the first window
  };
  struct Open {
    uint64_t incident = 0;
    CommUid comm;                               // which tells it
    std::vector<std::set<std::string>> causes;  // keys of each
    std::set<std::string> hosts;                // between which their connections are
    std::set<CommUid> comms;                    // in whose operations they show; none: in all
    bool links = false;                         // wires and network devices, all of them
    bool has(const std::string& key) const {
      return std::any_of(causes.begin(), causes.end(), [&](const auto& keys) { return keys.contains(key); });
    }
    // It is not seen now and may come back, and the other one is about the network of its hosts, too: they may be one.
    // So may two directions of a wire, or wires of a device, that are seen by two communicators.
    bool may_be(const Open& other) const {
      if (links && other.links && !hosts.empty() && hosts == other.hosts) return true;
      return clean > 0 && std::any_of(hosts.begin(), hosts.end(), [&](const auto& h) { return other.hosts.contains(h); });
    }
    uint64_t windows = 1, with = 1;  // since it was reported, and in how many of them it was seen
    uint64_t clean = 0;              // the newest ones, without it
    Nanoseconds clean_since_ns = 0;  // begin of these
    bool confirmed = false;
  };
  struct Job {
    Job(const Settings& s, size_t& gpus_in_all)
        : timeline(s, gpus_in_all), past(s), step_past(s), machine_clocks({2e-6 * s.clock_drift_max_ppm, 1e6 * s.batches_differ_max_ms, s.slow_rounds_min, s.whatif_deviations_min}) {}
    whatif::Timeline timeline;
    whatif::Past past;
    whatif::StepPast step_past;
    MachineClocks machine_clocks;
    Nanoseconds first_ns = 0, started_ns = 0, heard_ns = 0;  // of the job, of the window, of its newest report
    std::map<std::string, Seen> seen;
    std::vector<Open> open;
    uint64_t halves = 1;           // of slow_window_s, in a window: more where causes come and go
    Nanoseconds iteration_ns = 0;  // how long the job's iterations take; 0: not known
    bool large = false;            // more GPUs than are looked at
    Focus focus;                   // if so, where
    int fruitless = 0;             // windows in which nothing was seen there
  };

  Job& job(const std::string& name, Nanoseconds now_ns);
  bool is_due(const Job&, Nanoseconds now_ns) const;
  bool facts_of(const whatif::Timeline&, Nanoseconds since_ns, Nanoseconds now_ns, MachineClocks&,
                std::vector<whatif::HostClock>&, std::vector<whatif::GpuFacts>&) const;
  bool may_show(const std::set<CommUid>&, const std::set<CommUid>& here) const;
  bool is_over(const Open&, Nanoseconds now_ns) const;
  void make_room(Job&);
  size_t share_of_large() const;
  void look_elsewhere(const std::string& name, Job&);
  void judge(const std::string& name, Job&, Nanoseconds now_ns);
  void explain(const std::string& name, Job&, const whatif::Graph&, const std::vector<whatif::GpuFacts>&,
               Nanoseconds now_ns);
  std::vector<whatif::SlowCollectives> find_slow_collectives(Job&, const whatif::Graph&, const whatif::Lateness&) const;
  void count(const std::string& name, Job&, const WhatIfLook&, Nanoseconds now_ns);
  static Seen seen_of(const Job&, const Suspect&);
  static bool tell(const WhatIfLook&, const Suspect&, const Communicator&, double host_part, double share, Finding&);
  const Communicator* teller(const Job&, const WhatIfLook&, const std::vector<const Suspect*>& sure) const;
  void report(Job&, const WhatIfLook&, const std::vector<Suspect>&, bool explained, Nanoseconds now_ns);
  void forget(Nanoseconds now_ns);

  const Settings& settings_;
  Watches& watches_;
  IncidentWriter& writer_;
  IterationAnalysis& iterations_;
  size_t gpus_ = 0;  // in the timelines of all jobs
  std::map<std::string, Job> jobs_;
};

}  // namespace ccld::decision
