// Which kernels are the same work, and which GPUs have the same role.
// Contract: pure.
#pragma once

#include <cstddef>
#include <vector>

#include "decision/settings.h"
#include "decision/whatif/graph.h"

namespace ccld::decision::whatif {

struct Kinds {
  std::vector<size_t> of_node;   // equal for the same operation on as many ranks, or the same Sends and Recvs
  std::vector<int> role_of_gpu;  // equal if they do the same in the same order; none: it does nothing
};

Kinds kinds_of(const Graph&, const Timeline&, const Settings&);

}  // namespace ccld::decision::whatif
