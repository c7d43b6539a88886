// How long host threads of a job wait each time that they want a processor, wherever they are.
// (Beyond the paper.)
//
// A launch needs a turn of a host thread, a transfer or a step many turns of several. So on a busy machine each may
// take so much longer although nothing is slow. What one process or one host alone waits is not among it: that is a
// cause, and found as one (locate/busy_host.h).
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/whatif/causes.h"

namespace ccld::decision::whatif {

// Of the median process, on the host on which it waits least. 0: nobody tells.
double common_turn_wait_ns(const std::vector<GpuFacts>&);

}  // namespace ccld::decision::whatif
