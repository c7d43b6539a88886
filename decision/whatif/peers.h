// What the peers of a GPU did at the same occurrence: its own times beyond theirs.
// Contract: pure.
#pragma once

#include <algorithm>
#include <cmath>
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
    // Of nodes of which the host's part is not known, as of the first one of a graph: likewise.
    double unknown_ns = 0, unknown_own_ns = 0;
    size_t nodes = 0;
    int peers = 0;
    double deviation_ns = 0;  // of the sums of its peers (of all GPUs, if it has few), around 0
    // A slow GPU is slow in all its work: by as much as in what no host had a part in, it is so in what may be either.
    bool by_host() const {
      const double known_own_ns = own_ns - unknown_own_ns, gpu_ns = std::max(0.0, sum_ns - unknown_ns - host_ns);
      const double either_ns = known_own_ns > 0 ? unknown_ns - gpu_ns / known_own_ns * unknown_own_ns : 0;
      return host_ns + std::max(0.0, either_ns) > sum_ns / 2;
    }
    // What is taken off the sum is taken off each part of it.
    void take_off(double ns) {
      const double part = sum_ns > 0 ? std::clamp(1 - ns / sum_ns, 0.0, 1.0) : 0;
      host_ns *= part, unknown_ns *= part, sum_ns -= ns;
    }
    // A node that takes `ns` beyond the usual, and of that `of_host_ns` until its launch (NaN: not known).
    void add(double ns, double of_host_ns, double of_own_ns) {
      sum_ns += ns, own_ns += of_own_ns;
      if (std::isnan(of_host_ns))
        unknown_ns += ns, unknown_own_ns += of_own_ns;
      else
        host_ns += std::clamp(of_host_ns, 0.0, std::max(0.0, ns));
    }
  };
  std::vector<OfGpu> gpus;
};

// `seldom`: what later windows are to know of this one.
Beyond compare_with_peers(const Graph&, const Timeline&, const Kinds&, const Recurring&, const Settings&,
                          Seldom& seldom);

}  // namespace ccld::decision::whatif
