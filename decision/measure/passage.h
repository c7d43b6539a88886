// What the steps of a connection wait for on their way from one GPU to the other, in parts that add up over operations.
// (Paper, section 4.2.2: S2.)
//
// Contract: plain state; nanoseconds.
#pragma once

#include "decision/measure/link_intervals.h"

namespace ccld::decision {

// For the sender's proxy, for the network to say "sent", for their arrival, for the receiver's proxy, and for its GPU.
// Within a node there is only the last part.
enum PassagePart { to_hand_on, to_be_sent, on_the_wire, to_be_given, to_be_taken, passage_parts };

// By how much later than the sender begins. 0: not known.
struct Later {
  double begun_ns = 0;   // the receiver begins
  double posted_ns = 0;  // it has posted its receives; less than 0: before the sender begins
  // The last rank of the operation begins: until then proxies may wait for GPUs that wait for it.
  double all_begun_ns = 0;
  // It posts receives at its launch, not when its kernel begins (as for a Recv): then they say what it awaited.
  bool posts_at_launch = false;
};

// Of the connections of two ranks in one operation or transfer: sums over their steps.
struct Passage {
  double steps = 0;
  double ns[passage_parts] = {};       // at least: less what the ends' late begins explain
  double most_ns[passage_parts] = {};  // with that
  double sender_away_ns = 0, receiver_away_ns = 0;
  double round_ns = 0;  // from its first begin to its last end, which these are parts of; 0: not known
  int channels = 0;
  bool network = false;
  void add(const EdgeIntervals&, const Later&);  // a channel
};

// Time of a step in each part, over the operations of which both ends reported it: on a busy machine a probe looks long
// enough at some only.
class StepTimes {
 public:
  void add(const Passage&, double operation_ns);
  uint64_t operations() const { return operations_; }
  double mean_ns(size_t part) const { return sums_ns_[part] / static_cast<double>(operations_); }
  double most_ns(size_t part) const { return most_sums_ns_[part] / static_cast<double>(operations_); }
  // Until it is given to the receiver's GPU, and the standard error of that.
  double given_after_ns() const { return given_after_ns_ / static_cast<double>(operations_); }
  double given_after_error_ns() const { return error_ns(given_after_ns_, given_after_squares_); }
  double taken_error_ns() const { return error_ns(sums_ns_[to_be_taken], taken_squares_); }
  // Of a channel.
  double steps_per_operation() const { return steps_ / static_cast<double>(operations_); }
  // Steps of a channel that wait, on average, if each of them is there for so long.
  double waiting(double step_ns) const { return step_ns * steps_ / operations_ns_; }
  // Of the time from the first begin of an operation to its last end, in which the proxies did not poll their
  // connections.
  double sender_away_part() const { return away_part(sender_away_ns_); }
  double receiver_away_part() const { return away_part(receiver_away_ns_); }

 private:
  double error_ns(double sum_ns, double squares) const;
  double away_part(double ns) const { return rounds_ns_ > 0 ? ns / rounds_ns_ : 0; }

  uint64_t operations_ = 0;
  double steps_ = 0, operations_ns_ = 0, sender_away_ns_ = 0, receiver_away_ns_ = 0, rounds_ns_ = 0;
  double sums_ns_[passage_parts] = {}, most_sums_ns_[passage_parts] = {};
  double given_after_ns_ = 0, given_after_squares_ = 0, taken_squares_ = 0;
};

// Whose part of the way is slow. A proxy that is slow hands on late what its GPU sends, and sees late what arrives; a
// wire, a device, does neither. So it is a proxy if at least `proxy_part_min` of the time is spent where only a proxy
// can.
enum class WhosePart { senders_proxy, device, wire, receivers_proxy };
// `beyond_ns`: of a step in each part, beyond the usual. `receiver_sends_ns`: likewise, for the receiver's proxy to
// hand on what its own GPU sends.
WhosePart whose_part(const double (&beyond_ns)[passage_parts], double receiver_sends_ns, double proxy_part_min);

}  // namespace ccld::decision
