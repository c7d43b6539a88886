// The probe's agent of one simulated process: what it would send at an instant, read from the job's timelines.
// (CommUp at first, after 4, 8 and 16 s, and then every 30 s, and anew for another service; finished rounds every 100
// ms; snapshots with the heartbeat of one second and, once nothing has moved for a second, every 100 ms; health with
// what its siblings look like.)
//
// Contract: collect() is called with increasing instants, not before Job::run_until() of the same instant.
#pragma once

#include <vector>

#include "decision/model/events.h"
#include "test/sim/cluster/job.h"
#include "test/sim/telemetry/clocks.h"

namespace ccld::sim {

struct AgentPlace {
  int process = 0;
  decision::ProcessId id;
  Clocks clocks;
  Nanoseconds phase_ns = 0;  // of its heartbeat within a second
};

class Agent {
 public:
  Agent(const Job&, const AgentPlace&);

  struct SiblingState {
    decision::ProcessId id;
    char state = 'S';
    Instant since = 0;
    const Agent* lost = nullptr;  // it stands still or is gone: what its frames show
  };
  // `siblings`: the other processes of the same machine, as /proc shows them.
  std::vector<decision::Payload> collect(Instant now, const std::vector<SiblingState>& siblings);
  // The service has answered, and is another one, which knows nothing.
  void announce_again();
  const AgentPlace& place() const { return place_; }

 private:
  struct Membership {
    int comm, rank;
    bool told = false;
    Instant next_up = 0, next_late = 0;
    Nanoseconds up_repeat = 0;
    uint64_t rounds_told = 0, calls_told = 0;
    uint64_t movement = 0;
    Instant moved = 0;
    uint64_t ops_completed = 0;
  };
  decision::CommUp comm_up(const Membership&) const;
  std::vector<decision::LastOperations> last_operations(Instant now) const;
  // `side`: the rank within the round's plan.
  void add_rounds(Membership&, Instant now, std::vector<decision::Payload>&) const;
  // What the samples of a kernel say of the stages of its connections.
  struct Stages {
    uint64_t number;        // of the operation, or of the call among those of its pair
    Instant begin, end;     // of the kernel
    int step_size = 1;
    int peer_of_pair = -1;  // of a Send or Recv
  };
  void add_links(const StepRun&, int side, const Stages&, std::vector<decision::LinkStages>&) const;
  void add_calls(Membership&, Instant now, std::vector<decision::Payload>&) const;
  decision::InFlight snapshot(Membership&, Instant now) const;
  void describe(const Membership&, const OpRecord&, Instant now, bool tells, decision::InFlight&) const;
  void add_lanes(const StepRun&, int side, const OpShape*, uint32_t token, Instant begin, uint32_t first_step,
                 int peer_of_pair, Instant now, decision::InFlight&) const;
  void add_proxies(const StepRun&, int side, int step_size, uint32_t first_step, int peer_of_pair, Instant now,
                   decision::InFlight&) const;
  // Newest movement of a rank's steps.
  Instant steps_moved(const StepRun&, int side, Instant now) const;
  Instant movement_of(const Membership&, Instant now) const;
  bool busy(const Membership&, Instant now) const;
  Instant sampled(Instant t) const;  // when the sampling thread notices

  const Job& job_;
  const AgentPlace place_;
  std::vector<Membership> memberships_;
  Instant next_beat_ = 0;
};

}  // namespace ccld::sim
