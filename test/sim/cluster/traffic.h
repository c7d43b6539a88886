// What a job computes and says in an iteration: shapes of operations and the order of actions of each process.
#pragma once

#include <cstdint>
#include <vector>

#include "test/sim/cluster/layout.h"
#include "test/sim/cluster/steps.h"
#include "test/sim/random.h"

namespace ccld::sim {

enum class Way { ring, tree, nvls, broadcast, all_to_all };

struct OpShape {
  CommKind comm = CommKind::data;
  decision::Signature signature;  // as known after the launch
  Way way = Way::ring;
  int steps = 24;
  int step_size = 1;                    // in NCCL's steps: a ring with Simple moves two at a time
  Nanoseconds duration_ns = ns_per_ms;  // healthy, from the last begin
  int index = 0;                        // within Traffic::shapes
};

struct Call {
  int peer = 0;  // rank of the pipeline communicator
  abi::Direction direction = abi::Direction::send;
  uint64_t bytes = 0;  // 0: Traffic::transfer_bytes
  int steps = -1;      // -1: as many as the other side's
};

struct Action {
  enum class Kind { compute, collective, calls, sync, pause } kind = Kind::compute;
  Nanoseconds time_ns = 0;  // compute, pause (on the host)
  int shape = -1;           // collective
  std::vector<Call> calls;  // Send and Recv of one group
};

struct Traffic {
  std::vector<OpShape> shapes;
  // Indices of shapes; -1: not used.
  int tensor_forward = -1, tensor_backward = -1, expert = -1, loss = -1, barrier = -1, broadcast = -1;
  std::vector<int> gradients;  // reduced at the end of each iteration
  int gather = -1;             // parameters, after the gradients (sharded optimizer)
  int microbatches = 1;
  int layers = 1;                           // of a stage: each reduces twice forward, and once backward
  double head = 0, embedding = 0;           // what the last and the first stage compute besides, in forward passes
  Nanoseconds compute_ns = 10 * ns_per_ms;  // of one microbatch of a stage, forward
  double jitter = 0.02;                     // of every time
  double imbalance = 0;                     // additional part of compute, different for each data index and iteration
  bool eager = false;                       // the host waits for every operation
  Nanoseconds transfer_ns = ns_per_ms;      // of one Send and Recv
  uint64_t transfer_bytes = 1 << 20;
  int channels = 2;
  bool buffered_network = false;

  // Irregular, and healthy.
  int slow_iterations = 0;  // at the start
  double slow_start = 1;    // times the usual
  uint64_t evaluate_every = 0, evaluate_iterations = 0;
  uint64_t checkpoint_every = 0;
  Nanoseconds checkpoint_ns = 0;
  bool checkpoint_by_first = false;  // process 0 writes, the others wait in a barrier
  uint64_t broadcast_every = 0;
};

// The actions of one process in one iteration. Pure.
std::vector<Action> iteration_of(const Layout&, const Traffic&, uint64_t seed, int process, uint64_t iteration);

// Seconds of a healthy iteration, roughly.
double iteration_s(const Layout&, const Traffic&);

}  // namespace ccld::sim
