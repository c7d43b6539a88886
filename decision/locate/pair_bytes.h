// H2 of Send and Recv: the k-th send of a to b and the k-th receive of b from a speak of different numbers of bytes.
// (Beyond the paper, whose Operation Type Set is compared for collectives.)
//
// NCCL wants the same count on both sides and does not check it: each side cuts its own bytes into steps, and chooses
// channels and protocol by them. So a difference may hang one side, or leave data behind that the next call takes for
// its own, or pass unseen. It is found from what both ends say of the call, hang or no hang.
//
// Contract: every report may come late, twice, in any order, or never. O(calls reported), and for ranks in standstill
// O(calls) once for each of their movements. Bounded: of calls whose other end is not heard of, the oldest give way.
// Not thread-safe; no clock.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/locate/finding.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

class PairBytes {
 public:
  explicit PairBytes(const Settings& settings) : settings_(settings) {}

  // After the communicator has taken the report.
  void ended(const Communicator&, const P2pRounds&, const ProcessModel&, Nanoseconds now_ns);
  void in_flight(const Communicator&, const InFlight&, const ProcessModel&, Nanoseconds now_ns);

  // What is known of all pairs that have differed within mismatch_clean_s, if there is news. Both ends of a pair are
  // candidates; the rank that differs from several peers, and without which none of them would, is the culprit.
  std::optional<Finding> next(const Communicator&, Nanoseconds now_ns);

 private:
  struct Call {
    int32_t sender, receiver;
    uint64_t pair_seq;
    uint32_t replay;
    friend bool operator==(const Call&, const Call&) = default;
    template <class H>
    friend H AbslHashValue(H h, const Call& c) {
      return H::combine(std::move(h), c.sender, c.receiver, c.pair_seq, c.replay);
    }
  };
  struct End {
    uint64_t bytes;
    bool of_sender;
    bool judged;  // against what the other end has in flight
  };
  using Ends = absl::flat_hash_map<Call, End>;
  struct Difference {
    uint64_t pair_seq = 0, sent = 0, received = 0, calls = 0;
    uint32_t replay = 0;
    Nanoseconds last_ns = 0;
  };

  static Call call_of(Rank own, Rank peer, abi::Direction, uint64_t pair_seq, uint32_t replay);
  End* find(const Call&);
  void compare(const Call&, uint64_t sent, uint64_t received, Nanoseconds now_ns);
  size_t ends_max(const Communicator&) const;

  const Settings& settings_;
  // Ends whose other end is not heard of: those of now, and those from before the last time that there were too many.
  Ends ends_, ends_before_;
  absl::flat_hash_map<int32_t, uint64_t> looked_;  // by rank: its movement when its calls in flight were looked at
  std::map<std::pair<int32_t, int32_t>, Difference> differences_;  // by sender and receiver: the first, and how many
  bool news_ = false;
};

}  // namespace ccld::decision
