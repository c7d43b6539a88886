// Location of slowness of Send and Recv: which rank, or which connection, takes longer than it used to.
// (Paper, section 4.2.2: S1 to S3; there for collectives only.)
//
// Contract: pure.
#pragma once

#include <optional>

#include "decision/detect/slow_p2p.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

// nullopt: it is not slow, or has no cause. `lost_share`: of the time of the window, as far as it tells.
std::optional<Finding> locate_slow_p2p(const Communicator&, const SlowPairsDetector& window, const Settings&,
                                       double& lost_share);

}  // namespace ccld::decision
