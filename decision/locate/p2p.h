// Send and Recv that were not made: who is waited for. (Beyond the paper, which looks at collectives.)
#pragma once

#include <vector>

#include "decision/detect/p2p.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

// H1: `roots` did not make calls that `waits` wait for, and wait for nobody themselves.
Finding p2p_not_entered(const Communicator&, const std::vector<P2pWait>& waits, const std::vector<Rank>& roots,
                        const ProcessTable&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
