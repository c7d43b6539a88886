// What the peers of a GPU did at the same occurrence: its own times beyond theirs.
// Contract: pure.
#pragma once

#include <vector>

#include "decision/settings.h"
#include "decision/whatif/graph.h"
#include "decision/whatif/kinds.h"
#include "decision/whatif/recurring.h"

namespace ccld::decision::whatif {

struct Beyond {
  // By node: own time minus the median of its role at the same occurrence (of two, minus the other's); 0 where it has
  // too few peers or does not recur. host_ns likewise, of the part until the launch.
  std::vector<float> own_ns, host_ns;
  struct OfGpu {
    double sum_ns = 0, host_ns = 0;  // of these
    double own_ns = 0;               // own time of the nodes compared
    size_t nodes = 0;
    int peers = 0;
    double deviation_ns = 0;  // of the sums of its peers (of all GPUs, if it has few), around 0
    bool by_host() const { return host_ns > sum_ns / 2; }
  };
  std::vector<OfGpu> gpus;
};

// `seldom`: what later windows are to know of this one.
Beyond compare_with_peers(const Graph&, const Timeline&, const Kinds&, const Recurring&, const Settings&,
                          Seldom& seldom);

}  // namespace ccld::decision::whatif
