// Benign but irregular traffic: what a healthy job does besides training steadily. The same answer in all ranks, from a
// seed.
//
// Contract
//   A job is a sequence of phases of some rounds each, drawn from the seed; the first is always the warm-up. at(round)
//   names the phase, of(round, rank) what this rank does in that round. Whatever differs between ranks is short, moves
//   from rank to rank, or waits at a barrier (an all-reduce of one float), as in real jobs.
// Units: rounds from 1, milliseconds. Threads: plain values.
#pragma once

#include <cstdint>
#include <vector>

#include "test/support/workload/traffic_call.h"

namespace ccld::workload {

enum class PhaseKind {
  warm_up,     // long computing, as compilers do
  steady,      // equal operations
  sizes,       // operation and size change in every round
  imbalance,   // another rank has more to compute in every round
  burst,       // small operations without a pause
  evaluation,  // other operations, no gradients
  checkpoint,  // everybody stores for a while, rank 0 longest, then a barrier
  hiccup,      // one rank pauses (a garbage collection, a slow read)
  idle,        // nobody does anything
  recreate     // communicators are destroyed and made anew
};

const char* name(PhaseKind);

struct Phase {
  PhaseKind kind = PhaseKind::steady;
  uint64_t first_round = 1;
  uint64_t rounds = 1;
  uint64_t seed = 0;
};

struct Behaviour {
  PhaseKind kind = PhaseKind::steady;
  Operation operation = Operation::all_reduce;
  uint64_t bytes = 0;
  double compute_ms = 0;     // on this rank's device
  double host_pause_ms = 0;  // of this rank, before the operation
  bool recreate = false;     // before the operation, on all ranks
};

struct PhaseLimits {
  uint64_t bytes_max = 1 << 20;
  double pause_ms_max = 3000;     // of one rank while others wait in an ordinary operation
  double barrier_ms_max = 20000;  // of one rank while others wait at a barrier
  double idle_ms_max = 10000;
  uint64_t rounds_divisor = 1;  // phases have so many times fewer rounds: a round may be a whole iteration
};

class Phases {
 public:
  Phases(uint64_t seed, int rank_count, const PhaseLimits&);

  const Phase& at(uint64_t round) const;
  Behaviour of(uint64_t round, int rank) const;

 private:
  int rank_count_;
  PhaseLimits limits_;
  std::vector<Phase> phases_;
};

// A repeatable number from 0 to 1.
double draw(uint64_t seed, uint64_t rank, uint64_t round);

}  // namespace ccld::workload
