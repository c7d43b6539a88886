// Which kernels belong together: those of a collective on all its ranks, and a Send with its Recv.
// Contract: pure.
#pragma once

#include <vector>

#include "decision/whatif/timeline.h"

namespace ccld::decision::whatif {

struct Place {
  int gpu, kernel;  // of the timeline
};

struct Collective {
  CommUid comm;
  abi::Function function = abi::Function::all_reduce;
  std::vector<Place> members;
  bool whole = false;  // all GPUs that reported anything of the communicator have reported it
};

struct Pair {
  Place send, recv;
  uint64_t bytes = 0, pair_seq = 0;
};

struct Matches {
  std::vector<Collective> collectives;  // whole ones that need everybody
  std::vector<Collective> others;       // with a root, or of which reports are missing
  std::vector<Pair> pairs;
};

Matches match_kernels(const Timeline&);

}  // namespace ccld::decision::whatif
