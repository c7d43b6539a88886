// What is normal for one signature of one communicator: the usual T_max, the healthy spread of what ranks and links do.
// (Paper, section 4.2.1, equation 1; its own T_base, which then stays, is in paper/slow.h.)
//
// Contract: times in nanoseconds; plain state, not thread-safe. The start of the usual T_max is a trimmed mean (one early
// outlier does not count), and then it follows what healthy rounds do. Bounded: at most signatures_max kinds,
// rank_kinds_max of them with a healthy past of every rank (16 bytes a rank each), and edges_per_rank_max connections
// with one (100 bytes each).
#pragma once

#include <cstdint>
#include <limits>
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
  Spread() = default;
  // As if it had seen so many samples.
  Spread(double mean, double deviation, uint32_t samples)
      : mean_(mean), deviation_(static_cast<float>(deviation)), samples_(samples) {}
  void add(double x);
  double mean() const { return mean_; }
  double deviation() const { return deviation_; }
  uint32_t samples() const { return samples_; }

 private:
  double mean_ = 0;
  float deviation_ = 0;
  uint32_t samples_ = 0;
};

// Mean of the middle eight tenths of the values, and the mean distance of the middle nine tenths from it.
Spread trimmed(std::vector<float> values);

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
  float mean_ns[interval_count] = {}, deviation_ns[interval_count] = {};
  float sender_away_part = 0, receiver_away_part = 0;  // of a round, in which a proxy does not look at its work
  uint8_t samples[interval_count] = {}, away_samples = 0;
  void add(Interval, double ns);
  void add_away(double sender_part, double receiver_part);
};

// Of one rank in one kind of round.
struct RankBaseline {
  float excess_ns = 0, excess_deviation_ns = 0;  // its gap minus the median gap
  // From launch to begin, and from the end of the operation before to the launch, at least. These compare two clocks: only
  // changes mean something. NaN: not known.
  float queued_ns = std::numeric_limits<float>::quiet_NaN(), launched_ns = std::numeric_limits<float>::quiet_NaN();
};

// Rounds of the first time that lasted much longer than the others are a habit of the job (pauses, checkpoints), if they
// are few.
struct Habit {
  uint64_t rounds = 0, events = 0;
  double lost_ns = 0, largest_ns = 0;
  void add(double lost_ns, bool event);
  void add(const Habit&);
  double per_round_ns() const;  // a single event is none
};

struct KindBaseline {
  uint64_t seen = 0;  // rounds, warm-up included
  bool ready = false;  // enough healthy rounds were seen
  Spread max_ns;       // T_max
  Spread skew_ns;      // over the ranks, the largest minus the smallest gap between two operations
  Spread comm_ns;      // time since the last rank started
  std::vector<RankBaseline> ranks;  // may be empty: over the budget
  uint32_t rank_samples = 0, queued_samples = 0;
  // Of all ranks: by how much queues differ, and how often the launch came as soon after the operation before as ever.
  float queued_deviation_ns = 0, in_turn_part = 0;
  absl::flat_hash_map<Edge, EdgeBaseline> edges;
  uint64_t learnt_slice = 0;  // in this slice of time ...
  uint32_t learnt = 0;        // ... so many rounds were learnt from

  struct First {
    float max_ns, skew_ns, comm_ns;
  };
  std::vector<First> first;  // until ready: one of `first_stride` rounds
  uint32_t first_seen = 0, first_stride = 1;
  Nanoseconds first_ns = 0;
  Habit early;               // of the rounds after that
  uint8_t early_slow = 0, early_returns = 0;  // of the first of these: slow ones, and healthy ones after a slow one
  bool last_slow = false;
  // Many rounds were slow right after the first ones, now and then: those may all be of a few iterations that were alike.
  bool doubtful = false;
};

class Baselines {
 public:
  explicit Baselines(const Settings& settings) : settings_(settings) {}
  KindBaseline* of(const RoundKind&);  // nullptr: too many kinds

  // The start of the baseline: the first 30 rounds (baseline_rounds_max, if that is less), and a quarter
  // of slow_window_s at least. (Many operations repeat within a part of an iteration: the first few are all alike.)
  void learn_first(KindBaseline&, double max_ns, double skew_ns, double comm_ns, Nanoseconds now_ns);
  // A round after the first ones: what is rare then is a habit too; what is not makes the first ones doubtful.
  void learn_habit(KindBaseline&, double lost_ns, bool slow);
  // Room for the healthy past of `ranks` ranks; false: over the budget.
  bool grant_ranks(KindBaseline&, size_t ranks);
  // nullptr: over the budget.
  EdgeBaseline* edge(KindBaseline&, const Edge&, size_t ranks);
  // The workload has changed: learn anew.
  void forget();
  const Habit& habit() const { return habit_; }

  static constexpr size_t rank_kinds_max = 16;
  static constexpr size_t edges_per_rank_max = 4, edges_min = 4096;

 private:
  const Settings& settings_;
  absl::flat_hash_map<RoundKind, std::unique_ptr<KindBaseline>> kinds_;
  size_t rank_kinds_ = 0, edges_ = 0;
  Habit habit_;
};

}  // namespace ccld::decision
