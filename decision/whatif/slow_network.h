// The connections, devices and proxies that make one kind of a communicator's operations slow.
// Contract: pure.
#pragma once

#include <vector>

#include "decision/whatif/connection_steps.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

struct SlowNetwork {
  std::vector<SlowLink> links;
  bool slow = false;  // some connection is, also if nobody stands out
};

SlowNetwork find_slow_network(const Connections&, const StepReference&, const Settings&);

}  // namespace ccld::decision::whatif
