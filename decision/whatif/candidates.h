// What may be a cause: all that is slow at one place, a wire from one host to another, a process's proxy, or a GPU. It
// may show in several communicators and kinds of operations, in each of them little. Contract: pure.
#pragma once

#include <vector>

#include "decision/whatif/causes.h"

namespace ccld::decision::whatif {

struct Candidate {
  struct Part {
    Cause cause;
    double most_ns = 0;  // it cannot gain more
  };
  std::vector<Part> parts;
  double most_ns = 0, gain_ns = 0;
  const Cause& first() const { return parts.front().cause; }
};

// What is at the same place, together; ranks that come late stay alone. `collectives`: those that causes mean.
std::vector<Candidate> by_place(std::vector<Candidate::Part>, const Graph&, const std::vector<GpuFacts>&,
                                const std::vector<SlowCollectives>& collectives);

}  // namespace ccld::decision::whatif
