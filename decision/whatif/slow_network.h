// The connections, devices and proxies that make one kind of a communicator's operations slow.
// Contract: pure.
#pragma once

#include <vector>

#include "decision/model/communicator.h"
#include "decision/whatif/connection_steps.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

struct SlowNetwork {
  std::vector<SlowLink> links;
  bool slow = false;  // some connection is, also if nobody stands out
};

// `late`: ranks that come late. `since_ns`: threads of a process that were seen stopped since then are its proxy's.
SlowNetwork find_slow_network(const Communicator&, const Connections&, const StepReference&,
                              const std::vector<Rank>& late, Nanoseconds since_ns, const Settings&);

}  // namespace ccld::decision::whatif
