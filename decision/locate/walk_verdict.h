// What a walk over waits (walk.h) came to, and what follows from it: whose fault it is, or who is left.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "decision/locate/finding.h"
#include "decision/locate/hang.h"
#include "decision/locate/links.h"

namespace ccld::decision {

// A thread group of a rank on a channel.
struct WalkNode {
  int32_t rank;
  int32_t channel;
  int32_t group;
  friend auto operator<=>(const WalkNode&, const WalkNode&) = default;
  template <class H>
  friend H AbslHashValue(H h, const WalkNode& n) {
    return H::combine(std::move(h), n.rank, n.channel, n.group);
  }
};

// Why a walk goes no further.
enum class EndKind { process, gpu, not_begun, ended, unknown_rank, left, not_watched };

struct WalkEnd {
  EndKind kind;
  Nanoseconds quiet_ns = 0;  // how long it has neither moved nor polled
  std::set<int32_t> waiters;
};

struct WalkResult {
  std::map<WalkNode, WalkEnd> ends;
  // Edges that have what is wanted of them, and for how long.
  std::vector<std::pair<StuckEdge, Nanoseconds>> stops;
  // Who waits for whom, one for a pair and channel that was followed; at most edges_max.
  struct Edge {
    int32_t rank, waits_for;
    int channel;
  };
  static constexpr size_t edges_max = size_t{1} << 20;  // 12 MiB
  std::vector<Edge> edges;
  size_t waits = 0;  // connection endpoints followed
};

Finding conclude(const Communicator&, const HangView&, const Settings&, Nanoseconds now_ns, const WalkResult&);

}  // namespace ccld::decision
