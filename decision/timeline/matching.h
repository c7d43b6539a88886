// Which kernels belong together: those of a collective on all its ranks, and a Send with its Recv; and which of them
// nobody reported, as far as the others tell.
// Contract: pure.
#pragma once

#include <vector>

#include "decision/timeline/timeline.h"

namespace ccld::decision::timeline {

struct Place {
  int gpu, kernel;  // of the timeline
};

inline const Kernel& kernel_at(const Timeline& t, Place p) { return at(at(t.gpus(), p.gpu).kernels, p.kernel); }

struct Collective {
  CommUid comm;
  std::vector<Place> members;
  std::vector<Place> missing;  // if it needs everybody: GPUs that have not reported it, with another kernel of theirs
  bool whole = false;          // every GPU that reported anything of the communicator has reported it
};

struct Pair {
  Place send, recv;
  uint64_t bytes = 0, pair_seq = 0;
};

// A Send or Recv of which the other end was not reported, while later ones were.
struct OneEnd {
  Place known;
  Place other;  // a GPU, with another kernel of the same rank
  bool known_sends = false;
  uint64_t bytes = 0, pair_seq = 0;
};

struct Matches {
  std::vector<Collective> collectives;  // whole ones that need everybody
  std::vector<Collective> others;       // Broadcast and Reduce, and those of which reports are missing
  std::vector<Pair> pairs;
  std::vector<OneEnd> one_ends;
  std::vector<OpenEnd> open_ends;  // by GPU and kernel
};

Matches match_kernels(const Timeline&);

}  // namespace ccld::decision::timeline
