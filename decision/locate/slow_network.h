// What of the network is slow: connections on which steps queue, and proxies that do not poll (`AwayProxy`).
// (Paper, section 4.2.2, S2, which goes by the least rate; behind one bottleneck all rates are equal.)
//
// Contract: pure; O(edges).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decision/locate/finding.h"
#include "decision/locate/slow_stages.h"

namespace ccld::decision {

// The channels that share a pair of ranks and a stage are one culprit.
struct SlowEdge {
  SlowStage stage;  // of the channel with the longest queue
  int channel;      // -1: several
  double queued;    // steps of all channels
};

// It had work and did not look, for so much of what its operations took beyond the usual.
struct AwayProxy {
  int32_t rank;
  double away_part;
  double away_ns;  // of an operation
};

// At most one of the first two.
struct SlowNetwork {
  std::vector<AwayProxy> away;
  std::vector<SlowEdge> edges;
  std::optional<int32_t> proxy;  // all edges are its doing
  bool named() const { return !edges.empty() || !away.empty(); }
};

// `late`: ranks that come late to the operations. `network_only`: steps that wait for a GPU have another reason.
// On edges where fewer wait nothing is slow: `queued_steps_min` in all channels, `waiting_steps_min` in one. What
// decided becomes evidence.
SlowNetwork find_slow_network(const Communicator&, const SlowWindow&, const std::vector<Rank>& late, bool network_only,
                              double queued_steps_min, double waiting_steps_min, Finding&);

// Its culprits, with `share` of the lost time between them.
void name_slow_network(const Communicator&, const SlowNetwork&, double share, Finding&);

// Health is sampled once a second: threads that are stopped for most of the time are caught at it now and then.
bool had_stopped_threads(const Communicator&, Rank, Nanoseconds since_ns);

}  // namespace ccld::decision
