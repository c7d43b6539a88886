// What the rounds of a window add up to. (Paper, section 4.2.1: detection windows; equations 2 to 4.)
//
// Contract: plain state; bounded by the ranks and the connections of the communicator, and empty while nothing is slow.
#pragma once

#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/measure/baseline.h"
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

// The slow rounds of a window, by rank.
struct RankLoss {
  float late_ns = 0;     // its gaps beyond its peers' and its healthy ones
  float queued_ns = 0;   // from launch to begin of the kernel, beyond the usual; negative if the host is late
  float idle_ns = 0;     // from the end of the kernel before, of whatever communicator, beyond its peers'
  float present_ns = 0;  // computation lost in the rounds in which it was among the last
  uint32_t late = 0;     // those rounds
  uint32_t untimed = 0;  // rounds in which it was not measured
  float unseen_ns = 0;   // communication lost in these: it may have been late
};

struct SlowWindow {
  Nanoseconds started_ns = 0;
  Nanoseconds first_slow_ns = 0;  // when the first slow round was seen
  uint64_t rounds = 0, slow_rounds = 0;
  double total_ns = 0;                // gaps of the last to start and times since then
  double comm_time_ns = 0;            // sum of T_max
  double lost_ns = 0;                 // of slow rounds: T_max beyond the usual
  double doubtful_ns = 0;             // of it by what may not be usual (KindBaseline::doubtful)
  double base_ns = 0;                 // of slow rounds: the usual T_max
  double computation_ns = 0;          // of slow rounds: computation beyond its healthy skew
  double communication_ns = 0;        // of slow rounds: communication beyond its healthy time
  double elsewhere_ns = 0;            // of slow rounds: skew that other communicators caused
  double unknown_ns = 0;              // of slow rounds: skew that other communicators may have caused: reports were lost
  double staged_ns = 0;               // communication_ns of the rounds that have stages of links
  double largest_ns = 0;              // the largest computation_ns of one round ...
  std::vector<int32_t> largest_late;  // ... and who was late in it
  std::vector<RankLoss> ranks;
  absl::flat_hash_map<Edge, EdgeLoss> edges;
  OpSeq first_slow_op;
  uint32_t first_slow_replay = 0;
  Signature signature;  // of the slow rounds: the first

  // The round with the largest T_max - T_min (equation 2): its R and P are evidence.
  struct Worst {
    double range_ns = -1, t_max_ns = 0, t_min_ns = 0, t_base_ns = 0;
    double ratio() const { return t_base_ns > 0 ? (t_max_ns - t_base_ns) / t_base_ns : 0; }
    double p() const { return t_max_ns > t_base_ns ? (t_max_ns - t_min_ns) / (t_max_ns - t_base_ns) : 0; }
  } worst;
};

// As if it had been one window.
SlowWindow merge(const std::deque<SlowWindow>&);

}  // namespace ccld::decision
