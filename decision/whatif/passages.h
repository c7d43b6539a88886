// Where the steps of each Send and its Recv waited on their way over the network, as far as both ends reported it.
//
// Contract: linear in the reported stages of links.
#pragma once

#include <vector>

#include "decision/measure/machine_clocks.h"
#include "decision/measure/passage.h"
#include "decision/whatif/causes.h"

namespace ccld::decision::whatif {

// By transfer of the graph; no steps: not known.
std::vector<Passage> passages_of_transfers(const Graph&, const Timeline&, const std::vector<GpuFacts>&, MachineClocks&);

}  // namespace ccld::decision::whatif
