// Connections within a communicator, and the times that are known of a step on its way between two GPUs.
// (Paper, section 4.2.2: S2.)
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ccld::decision {

// A connection within the communicator.
struct Edge {
  int32_t sender = -1, receiver = -1;
  int32_t channel = 0;
  friend bool operator==(const Edge&, const Edge&) = default;
  friend auto operator<=>(const Edge&, const Edge&) = default;
};

// Mean times between two events of a step (LinkStages of both ends).
enum class Interval : uint8_t {
  posted_to_handed,    // the sender's GPU posted it -> its proxy handed it to the network
  awaited_to_handed,   // the receiver posted a receive -> handed to the network (clocks of both ends)
  handed_to_sent,      // handed to the network -> the network says "sent"
  awaited_to_sent,     // the receiver posted a receive -> sent (clocks of both ends)
  sent_to_arrived,     // on the wire (clocks of both ends)
  awaited_to_arrived,  // the receiver posted a receive -> arrived
  arrived_to_given,    // arrived -> the receiver's proxy gave it to its GPU
  given_to_consumed,   // given -> the receiver's GPU consumed it
  posted_to_consumed,  // no proxy between: posted by one GPU -> consumed by the other (one node, one clock)
};
constexpr size_t interval_count = 9;

}  // namespace ccld::decision
