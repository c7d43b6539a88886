// The iteration time of a job as one communicator sees it, from the periodicity of its rounds alone, and whether it has
// changed for good: a second detector of a whole job's slowdown, for when every single round looks fair.
//
// Contract
//   One per witness: a communicator whose rounds are looked at. Times are those of the device clock of its first rank;
//   phases are counted in operation numbers, so that lost rounds lose iterations and shift nothing. Short iterations
//   are taken together until they last sample_ns. A change is what the change point detector says, verified: the
//   medians before and after differ by iteration_rise_min, their middle halves do not overlap, and each lasted for
//   slow_repeat windows (lasting_s()) and iteration_verify_min samples. In a pause (a checkpoint) nothing lasts.
//   Bounded: some 30 KiB, and 8 bytes a rank; constant time for each round, but for a search of the period now and
//   then.
// Threads: none of its own. Time injected.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "decision/iteration/change_point.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// Medians, for one iteration.
struct IterationLevel {
  double time_ns = 0;
  double communication_ns = 0;  // inside this communicator, since the last rank's start
  size_t samples = 0;
};

struct IterationChange {
  IterationLevel before, after;
  OpSeq since;                  // first operation of the new level
  Nanoseconds since_ns = 0;     // the service's clock
  Nanoseconds lasts_ns = 0;
  std::optional<Rank> rank;     // whose gaps explain it
  double rank_part = 0;         // of the rise
};

class IterationTimes {
 public:
  explicit IterationTimes(const Settings& settings) : settings_(settings) {}

  void add(const RoundEntry&, Nanoseconds now_ns);

  // A verified rise that lasts; nullopt: none, or it is over.
  std::optional<IterationChange> risen(Nanoseconds now_ns) const;
  // The new level is the usual one from now on.
  void accept();

  size_t period() const { return period_; }  // operations; 0: not known
  bool in_pattern() const { return in_pattern_; }
  size_t samples() const { return samples_.size(); }  // of the usual level and of the new one
  IterationLevel usual() const;
  IterationLevel now() const;                // of the last few samples
  // Where in the iteration, 0 .. 1, the operation is: 0 follows the longest pause. nullopt: not known.
  std::optional<double> position(OpSeq) const;

  static constexpr Nanoseconds sample_ns = ns_per_s / 2;

 private:
  struct Seen {
    uint64_t op = 0;
    uint64_t begin_ns = 0;  // device clock of the first rank
    float communication_ns = 0;
    float interval_ns = 0;
    uint16_t kind = 0;
  };
  struct Sample {
    float time_ns = 0, communication_ns = 0;  // of one iteration
    uint64_t op = 0;
    Nanoseconds at_ns = 0;
  };
  static constexpr size_t seen_max = 512, samples_max = 256;

  uint16_t kind_number(const Signature&);
  const Seen* seen(uint64_t op) const;
  size_t place(uint64_t op) const { return static_cast<size_t>((op + shift_) % period_); }
  void find_shift();
  void search();
  void sample(const Sample&);
  void forget_one();
  void watch_gaps(const RoundEntry&, Nanoseconds now_ns);
  using Samples = std::deque<Sample>::const_iterator;
  static IterationLevel level(Samples from, Samples to);
  static Nanoseconds lasts_ns(Samples from, Samples to, Nanoseconds until_ns);
  bool verified() const;

  const Settings& settings_;
  std::vector<Signature> kinds_;
  std::deque<Seen> seen_;  // by operation number
  uint64_t replayed_op_ = 0;  // != 0: the rounds are replays of it
  size_t period_ = 0, since_search_ = 0, since_shift_ = 0;
  std::vector<uint16_t> pattern_;  // kinds of one iteration
  uint64_t shift_ = 0;             // operation number + shift, modulo the period: the place in the pattern
  uint64_t start_ = 0;             // place in the pattern that follows the longest pause
  double match_ = 1;               // share of operations that are those of the pattern
  bool in_pattern_ = false;
  uint64_t resumed_ = 0;           // operation with which the pattern went on
  struct Open {
    double time_ns = 0, communication_ns = 0;
    size_t iterations = 0;
  } open_;  // the sample under way

  ChangePoints changes_{0.05};  // of logarithms of times
  std::deque<Sample> samples_;
  size_t change_ = 0;             // index of the first sample of the new level, of those that are remembered; 0: none
  Sample first_of_change_;        // if there is one
  Nanoseconds forgotten_ns_ = 0;  // of the new level: how long it has lasted until those that are remembered
  std::vector<float> usual_gap_ns_, gap_ns_;  // by rank, running means
  uint32_t usual_gaps_ = 0, gaps_ = 0;
  Nanoseconds gaps_ns_ = 0;
};

}  // namespace ccld::decision
