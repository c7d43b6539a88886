// Where the steps of each Send and its Recv waited on their way over the network, as far as both ends reported it.
//
// The means of the two ends are by the clocks of two hosts. The clocks of the GPUs are known to each other (graph.h),
// and each machine's realtime to its GPUs: a batch is sent soon after a kernel has ended, at least once.
//
// Contract: pure. Linear in the reported stages of links.
#pragma once

#include <vector>

#include "decision/measure/passage.h"
#include "decision/whatif/causes.h"

namespace ccld::decision::whatif {

// By transfer of the graph; no steps: not known.
std::vector<Passage> passages_of_transfers(const Graph&, const Timeline&, const std::vector<GpuFacts>&);

}  // namespace ccld::decision::whatif
