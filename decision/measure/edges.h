// Connections within a communicator: where a step may wait between two GPUs, and what is usual there.
// (Paper, section 4.2.2: S2.)
//
// Contract: plain state; nanoseconds. What is usual follows what is added, slowly: one outlier does not count.
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
  template <class H>
  friend H AbslHashValue(H h, const Edge& e) {
    return H::combine(std::move(h), e.sender, e.receiver, e.channel);
  }
};

// Where a step may sit between the sending and the receiving GPU.
enum class Stage : uint8_t {
  sender_proxy,    // posted by the sender's GPU, not yet handed to the network
  sender_nic,      // handed to the network, which has not said sent
  wire,            // said sent, not yet arrived
  receiver_proxy,  // arrived, not yet handed to the receiver's GPU
  receiver_gpu,    // handed to the receiver's GPU, not yet consumed
  gpu_to_gpu,      // no proxy between: posted by one GPU, not yet consumed by the other
};
constexpr size_t stage_count = 6;
const char* name(Stage);

// Mean times between two events of a step (LinkStages of both ends). A stage is to blame for no more than the least of
// its intervals: a step that is late on the wire was sent AND awaited.
enum class Interval : uint8_t {
  posted_to_handed,    // sender_proxy: the sender's GPU posted it -> handed to the network
  awaited_to_handed,   // sender_proxy: the receiver posted a receive -> handed to the network (two clocks)
  handed_to_sent,      // sender_nic
  awaited_to_sent,     // sender_nic: the receiver posted a receive -> sent (two clocks)
  sent_to_arrived,     // wire (two clocks)
  awaited_to_arrived,  // wire: the receiver posted a receive -> arrived
  arrived_to_given,    // receiver_proxy
  given_to_consumed,   // receiver_gpu
  posted_to_consumed,  // gpu_to_gpu (one node, one clock)
};
constexpr size_t interval_count = 9;

// Intervals of two clocks contain their difference; as growth over the healthy mean it cancels.
struct EdgeBaseline {
  float mean_ns[interval_count] = {}, deviation_ns[interval_count] = {};
  float sender_away_part = 0, receiver_away_part = 0;  // of a round, in which a proxy does not look at its work
  uint8_t samples[interval_count] = {}, away_samples = 0;
  void add(Interval, double ns);
  void add_away(double sender_part, double receiver_part);
};

}  // namespace ccld::decision
