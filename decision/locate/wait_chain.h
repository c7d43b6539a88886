// The chain of waits that leads to the culprits, for whoever draws it: nearest to the culprits first.
// Pure. O(edges + ranks).
#pragma once

#include <vector>

#include "decision/locate/walk_verdict.h"

namespace ccld::decision {

// From the culprits of the finding back to those that wait for them, breadth first, one edge for a pair of ranks; where
// nobody is named, from the candidates. At most waits_max.
std::vector<Wait> waits_towards(const Communicator&, const Finding&, const WalkResult&, Nanoseconds now_ns);

}  // namespace ccld::decision
