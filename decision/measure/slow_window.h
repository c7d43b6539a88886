// What the connections of a communicator lost in the slow operations of a window.
// (Paper, section 4.2.1: detection windows.)
//
// Contract: plain state; bounded by the connections of the communicator, and empty while nothing is slow.
#pragma once

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
  int net_device = -1;
};

struct SlowWindow {
  Nanoseconds started_ns = 0;
  uint64_t slow_rounds = 0;  // those that have stages of links
  double staged_ns = 0;      // what they took beyond the usual
  absl::flat_hash_map<Edge, EdgeLoss> edges;
  Signature signature;  // of the first of them
};

}  // namespace ccld::decision
