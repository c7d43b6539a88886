// What the connections of a communicator lost in the slow operations of a window.
// (Paper, section 4.2.1: detection windows.)
//
// Contract: plain state; bounded by the connections of the communicator, and empty while nothing is slow.
#pragma once

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "decision/measure/edges.h"
#include "decision/model/events.h"

namespace ccld::decision {

struct EdgeLoss {
  double waited_ns[stage_count] = {};  // steps x mean time beyond the healthy one
  double unsure_wire_ns = 0;           // of the wire: what a late receiver, or clocks that drift, may explain
  double sent_ns = 0;                  // from sent to arrived, awaited or not: at most so much, as far as clocks tell
  double sender_away_ns = 0, receiver_away_ns = 0;  // in which the proxies did not look at their work, beyond the usual
  double steps = 0;
  uint64_t rounds = 0;  // in which both its ends reported it
  int net_device = -1;
};

struct SlowWindow {
  Nanoseconds started_ns = 0;
  uint64_t slow_rounds = 0;  // those that have stages of links
  double staged_ns = 0;      // what they took beyond the usual
  absl::flat_hash_map<Edge, EdgeLoss> edges;
  Signature signature;  // of the first of them

  // What the operations that report this connection took beyond the usual. On a busy machine a probe looks long enough
  // at some only; they count by their number, and as three if they are fewer: one of them may be anything.
  double slow_ns(const EdgeLoss& l) const {
    constexpr uint64_t rounds_min = 3;
    if (slow_rounds == 0) return 0;
    const uint64_t of = std::min(slow_rounds, std::max(l.rounds, rounds_min));
    return staged_ns * static_cast<double>(of) / static_cast<double>(slow_rounds);
  }
  // Steps in this stage, on average.
  double standing(const EdgeLoss& l, Stage s) const {
    const double ns = slow_ns(l);
    return ns > 0 ? l.waited_ns[static_cast<size_t>(s)] / ns : 0;
  }
};

}  // namespace ccld::decision
