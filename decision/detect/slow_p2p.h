// Slowness of Send and Recv. (Paper, section 4.2.2: S1 to S3; there for collectives only.)
//
// Waiting in a Send or Recv is normal: the bubbles of a pipeline. So nothing is compared between ranks; each rank is
// compared with its own past, on its own clock: the time between two kernels, with kernels of other communicators taken
// out, is its computation, and grows only where the work itself got slower. A transfer lasts from when the second of
// its two kernels began, which is the shorter of their durations.
//
// Contract: time injected; one detector per communicator; calls late, twice or never. Bounded: 96 bytes a rank, and a
// few connections of each rank; allocates nothing until the first call.
#pragma once

#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/measure/baseline.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

class SlowPairsDetector {
 public:
  static constexpr uint32_t learn_min = 20;  // kernels of a rank, transfers of a pair, before they are judged

  explicit SlowPairsDetector(const Settings& settings) : settings_(settings) {}

  void add(const Communicator&, const P2pRounds&, const ProcessModel&, Nanoseconds now_ns);
  // It has seen Send or Recv: otherwise there is nothing to say.
  bool used() const { return started_ns_ != 0; }

  // What one rank did in a window, and does usually, per kernel.
  struct RankTimes {
    Rank rank;
    uint64_t last_end_ns = 0;  // device clock
    uint64_t last_begin_ns = 0;
    uint64_t lost = 0;  // batches that were missing then
    float gap_ns = 0, busy_ns = 0;  // sums of the window
    uint32_t kernels = 0;
    uint32_t seen = 0;
    uint32_t launches = 0;  // of kernels whose launch is known
    Spread usual_gap_ns, usual_cycle_ns;
    double queued_ns = 0;  // sum of the window: from launch to begin, beyond the first one (two clocks)
    double first_queued_ns = 0;
    double usual_queued_ns = 0;                 // of the last healthy windows
    bool has_first = false, has_usual = false;  // of these
  };
  struct Transfers {
    std::deque<std::pair<uint64_t, float>> half;  // pair_seq and duration of calls whose other side is not known yet
    bool half_of_sender = false;
    float sum_ns = 0;  // of the window
    uint32_t count = 0;
    uint32_t seen = 0;
    Spread usual_ns;
  };
  using Pair = std::pair<int32_t, int32_t>;  // sender, receiver

  // The window is over.
  bool is_due(Nanoseconds now_ns) const;
  Nanoseconds started_ns() const { return started_ns_; }
  uint64_t kernels() const { return kernels_; }
  const RankTable<RankTimes>& ranks() const { return ranks_; }
  const absl::flat_hash_map<Pair, Transfers>& pairs() const { return pairs_; }
  // A healthy window teaches.
  void next_window(bool healthy, Nanoseconds now_ns);

 private:
  void transferred(Pair, bool sender, uint64_t pair_seq, double duration_ns);

  const Settings& settings_;
  RankTable<RankTimes> ranks_;
  absl::flat_hash_map<Pair, Transfers> pairs_;
  Nanoseconds started_ns_ = 0;
  uint64_t kernels_ = 0;
};

}  // namespace ccld::decision
