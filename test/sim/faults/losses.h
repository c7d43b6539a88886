// What the operations of a communicator lose by a slow fault, in the mechanics: not what telemetry shows of it, nor
// what anybody says.
#pragma once

#include "test/sim/cluster/job.h"

namespace ccld::sim {

struct Losses {
  double slowdown = 0;          // how many times as long an operation takes, at most
  double computation_ns = 0;    // by what ranks differ in since the operation before, other communicators' kernels out
  double communication_ns = 0;  // from when all had come
  double operations_per_s = 0;  // once it is slow
  double iterations_longer = 1;  // how many times as long an iteration of the job takes; the planner sets it
};

// Of the operations that ended from `from` on, those before `onset` are healthy, those up to `to` are not. The job has
// forgotten none of them.
Losses losses_of(const Job&, int comm, Instant from, Instant onset, Instant to);

// One that is slow from its start has no healthy operations: those of the same job without the fault stand for them.
struct Span {
  const Job& job;
  Instant from, to;  // operations that ended from `from` on and before `to`
};
Losses losses_of(int comm, const Span& healthy, const Span& slow);

}  // namespace ccld::sim
