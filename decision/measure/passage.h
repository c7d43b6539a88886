// What the steps of a connection over the network wait for on their way from one GPU to the other, in four parts that
// add up over operations. (Paper, section 4.2.2: S2.)
//
// Contract: plain state; nanoseconds.
#pragma once

#include "decision/measure/slow_links.h"

namespace ccld::decision {

// For the sender's proxy, for the network to say "sent", for their arrival, for the receiver's proxy, and for its GPU.
enum PassagePart { to_hand_on, to_be_sent, on_the_wire, to_be_given, to_be_taken, passage_parts };

// By how much later than the sender begins. 0: not known.
struct Later {
  double begun_ns = 0;   // the receiver begins
  double posted_ns = 0;  // it has posted its receives
  // The last rank of the operation begins: until then proxies may wait for GPUs that wait for it.
  double all_begun_ns = 0;
};

// Sums over the steps of a connection.
struct Passage {
  double steps = 0;
  double ns[passage_parts] = {};
  double sender_away_ns = 0, receiver_away_ns = 0;
  // From the sender's proxy to the receiver's GPU, of a step.
  double network_ns() const { return steps > 0 ? (ns[to_be_sent] + ns[on_the_wire] + ns[to_be_given]) / steps : 0; }
  // `around_ns`: of WireCircles.
  void add(const EdgeIntervals&, double around_ns, const Later&);
  void add(const Passage&);
};

}  // namespace ccld::decision
