// What is normal for one signature of one communicator: T_base, the healthy spread of what ranks and links do.
// (Paper, section 4.2.1, equation 1.)
//
// Contract: times in nanoseconds as double; plain state, not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/model/events.h"
#include "decision/settings.h"

namespace ccld::decision {

// Running mean and mean absolute deviation. Outliers beyond five deviations count as five, and the past fades over a
// hundred samples, so that it follows drift without being carried away.
class Spread {
 public:
  void add(double x);
  double mean() const { return mean_; }
  double deviation() const { return deviation_; }
  uint32_t samples() const { return samples_; }

 private:
  static constexpr uint32_t memory = 100;
  double mean_ = 0, deviation_ = 0;
  uint32_t samples_ = 0;
};

// Rounds are comparable if they are the same operation done the same way.
struct RoundKind {
  uint64_t count = 0;
  int32_t root = -1;
  uint8_t function = 0, datatype = 0, reduction = 0, algorithm = 0, protocol = 0;
  uint16_t channels = 0;
  bool replayed = false;          // out of a graph: launched by nobody, so its gaps are others
  uint32_t kernel_operations = 1;  // that share its kernel
  friend bool operator==(const RoundKind&, const RoundKind&) = default;
  template <class H>
  friend H AbslHashValue(H h, const RoundKind& k) {
    return H::combine(std::move(h), k.count, k.root, k.function, k.datatype, k.reduction, k.algorithm, k.protocol,
                      k.channels, k.replayed, k.kernel_operations);
  }
};
RoundKind kind_of(const Signature&);

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
  Spread interval_ns[interval_count];
};

struct KindBaseline {
  uint64_t seen = 0;     // rounds, warm-up included
  uint64_t counted = 0;  // rounds in T_base
  Nanoseconds started_ns = 0;
  double sum_max_ns = 0;
  double t_base_ns = 0;           // equation 1; 0: none yet
  bool fixed = false;             // T_base is the mean of the first m rounds, not a configured value
  Spread skew_ns;                 // over the ranks, the largest minus the smallest gap between two operations
  Spread comm_ns;                 // time since the last rank started
  std::vector<Spread> excess_ns;  // by rank: its gap minus the median gap
  std::vector<Spread> queued_ns;  // by rank: begin on the device minus launch on the host
  absl::flat_hash_map<Edge, EdgeBaseline> edges;

  bool usable() const { return t_base_ns > 0; }
};

class Baselines {
 public:
  explicit Baselines(const Settings& settings) : settings_(settings) {}
  KindBaseline* of(const RoundKind&);  // nullptr: too many kinds
  // A comparable round beyond warm-up with this T_max: equation 1.
  void count(KindBaseline&, double t_max_ns, Nanoseconds now_ns);

 private:
  const Settings& settings_;
  absl::flat_hash_map<RoundKind, std::unique_ptr<KindBaseline>> kinds_;
};

}  // namespace ccld::decision
