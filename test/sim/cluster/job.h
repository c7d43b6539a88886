// The job itself: host threads that call, GPUs that work through their queue one kernel after the other, operations
// that end when everybody has come. What happens is written down as timelines, which the telemetry reads as an agent
// would.
//
// Contract: run_until(t) makes everything that happens by `t` final; some of what happens later may be known already.
// Deterministic. What has been reported may be dropped with forget().
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "test/sim/cluster/traffic.h"

namespace ccld::sim {

constexpr int pair_steps = 20;  // of a Send: more than fit into the slots of both sides, so that both must come

// One operation (or one Send with its Recv) of all its ranks.
struct Round {
  int comm = -1;
  uint64_t op = 0;
  const OpShape* shape = nullptr;  // of the first that called it; null: a Send with its Recv
  uint32_t first_step = 0;         // of its connections: their steps go on from one operation to the next
  std::vector<int> members;        // processes, by rank of the plan
  std::vector<RankStart> starts;
  std::vector<Instant> ends;  // by rank; never: not known or not at all
  int begun = 0;
  bool resolved = false;
  double pace = 1;  // of its durations
  std::shared_ptr<const StepRun> steps;
  int steps_version = -1, version = 0;
};

struct OpRecord {
  uint64_t op = 0;
  const OpShape* shape = nullptr;
  uint32_t token = 0;  // of its kernel
  Instant enter = never, launch = never, begin = never, end = never;
  uint32_t first_step = 0;
  std::shared_ptr<Round> round;
};

struct CallRecord {
  uint64_t call = 0, pair_seq = 0;
  int peer = 0;  // rank
  abi::Direction direction = abi::Direction::send;
  uint32_t token = 0;
  Instant enter = never, launch = never, begin = never, end = never;  // of its kernel
  uint32_t first_step = 0;
  uint64_t bytes = 0;
  std::shared_ptr<Round> pair;
};

struct Timeline {
  std::deque<OpRecord> ops;
  Instant ended = 0;  // when the newest of them did that has ended
  std::deque<CallRecord> calls;
  uint64_t ops_called = 0, calls_called = 0;
  uint32_t token = 0;
  std::map<std::pair<int, int>, uint64_t> pair_seq;  // by peer and direction
};

class Job {
 public:
  Job(const Layout&, const Traffic&, const Conditions&, uint64_t seed, Instant start);
  ~Job();

  void run_until(Instant);
  const Layout& layout() const { return layout_; }
  const Traffic& traffic() const { return traffic_; }
  const Conditions& conditions() const { return conditions_; }
  const Topology& topology(int comm) const;
  const Timeline& timeline(int comm, int rank) const { return timelines_[comm][rank]; }
  // What the steps of a round that is under way look like, with all that is known of its begins.
  const StepRun& steps_of(Round&) const;
  void forget(Instant before);  // records that ended before
  // Operations of a communicator that ended on all ranks between two instants: called with shape and longest duration.
  void ended_between(int comm, Instant from, Instant to, const std::function<void(const OpShape&, Nanoseconds)>&) const;

  uint64_t iteration_of_process(int process) const;
  // The newest event by `now`: a call, a launch, a begin, an end or a step, anywhere.
  Instant last_event(Instant now) const;
  // Where a rank's connections stand when it begins the operation. Behind an operation that hangs because it had more
  // steps on some ranks than on others, each rank's connections stand where its own steps have brought them.
  uint32_t first_step(int comm, int rank, const OpRecord&) const;
  // It has posted steps that the network has not sent.
  bool sends_pending(const OpRecord&, int rank, Instant now) const;
  // Its kernel has begun (and may have ended).
  bool began(int comm, int rank, uint64_t op) const;
  // It was called; op 0: it is inside a Send or Recv that does not end.
  bool called(int comm, int rank, uint64_t op) const;
  // The operation in which the process's program differs; 0: it has not come to it.
  uint64_t edited_op(int process) const;

 private:
  struct Process;
  struct Item;
  void advance(int process, Instant horizon);
  bool host_step(int process, Instant horizon);
  bool gpu_step(int process);
  void next_iteration(int process);
  void enter_collective(int process, const Action&);
  void enter_calls(int process, const Action&);
  void note_mismatch(const std::shared_ptr<Round>&, int rank, const OpShape&);
  void resolve(const std::shared_ptr<Round>&);
  void resolve_pair(const std::shared_ptr<Round>&);
  std::shared_ptr<const StepPlan> plan_of(const Round&) const;
  StepTimes cost_of(const Round&) const;
  bool wants_steps(const Round&) const;
  Round& round_of(int comm, uint64_t op, const OpShape&);

  const Layout& layout_;
  const Traffic& traffic_;
  const Conditions& conditions_;
  const uint64_t seed_;
  std::vector<Process> processes_;
  std::vector<std::vector<Timeline>> timelines_;
  std::vector<std::map<uint64_t, std::shared_ptr<Round>>> rounds_;  // by communicator: those not resolved
  std::vector<uint32_t> next_step_;                                 // by communicator
  struct Mismatch {
    std::shared_ptr<const Round> round;
    std::vector<uint32_t> beyond;  // by rank: steps that it takes more (modulo 2^32) than are counted for the round
  };
  std::vector<std::vector<Mismatch>> mismatches_;  // by communicator
  std::map<std::tuple<int, int, int, uint64_t>, std::shared_ptr<Round>> pairs_;
  std::vector<int> work_;
  std::vector<bool> queued_;
  mutable std::vector<std::unique_ptr<Topology>> topologies_;
  mutable std::vector<std::vector<std::shared_ptr<const StepPlan>>> plans_;  // by communicator and shape
  mutable std::shared_ptr<const StepPlan> pair_plans_[2];
  mutable std::map<std::pair<int, bool>, StepTimes> costs_;  // by shape; -1: a pair
};

}  // namespace ccld::sim
