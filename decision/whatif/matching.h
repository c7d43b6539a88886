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
  std::vector<Place> members;
  bool whole = false;  // every GPU that reported anything of the communicator has reported it
};

struct Pair {
  Place send, recv;
  uint64_t bytes = 0, pair_seq = 0;
};

struct Matches {
  std::vector<Collective> collectives;  // whole ones that need everybody
  std::vector<Collective> others;       // Broadcast and Reduce, and those of which reports are missing
  std::vector<Pair> pairs;
};

Matches match_kernels(const Timeline&);

}  // namespace ccld::decision::whatif
