// What one rank of a job with a layout does in an iteration: forward and backward of some micro-batches through the
// pipeline, then the gradients. Every rank computes its own list; together they fit.
//
// Contract
//   Forward of a micro-batch: receive from the previous stage; per layer compute, gather and reduce over the tensor
//   group and exchange over the expert group; send to the next stage. Backward is its mirror. Afterwards the data group
//   reduces and scatters the gradients and gathers the parameters (on a second stream if `overlap`), and the whole job
//   reduces a few bytes, as frameworks do for the norm of the gradients. Groups of one rank have no steps.
// Units: bytes of the larger buffer of an operation; milliseconds of device time. Threads: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "test/support/workload/iteration_shape.h"
#include "test/support/workload/layout.h"
#include "test/support/workload/traffic_call.h"

namespace ccld::workload {

enum class StepKind { compute, collective, all_to_all, send, recv };

struct Step {
  StepKind kind = StepKind::compute;
  Group group = Group::world;
  Call call;            // all but compute; of send, recv and all_to_all only count and type matter
  int peer = -1;        // send and recv: rank in the group's communicator
  double ms = 0;        // compute
  bool beside = false;  // on the second stream
};

std::vector<Step> iteration_steps(const Layout&, int rank, const IterationShape&);

// Exchanges the first steps of the two groups: a rank that calls its communicators in another order than the others.
// Returns false if one of them has no step.
bool swap_first(std::vector<Step>*, Group, Group);

// The largest buffer that a step of these needs, what faults make of it included.
uint64_t buffer_bytes_max(const IterationShape&);

}  // namespace ccld::workload
