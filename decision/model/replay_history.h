// Replays of CUDA graphs as rounds of their own: matched across ranks by (op_seq, replay). They come long after their
// operations were called, and graphs in any order, so they have no place in the order of calls (RoundHistory).
//
// Contract: plain state, no clock, not thread-safe. Every report may come late, twice, in any order, or never. Bounded:
// the round that was first heard of longest ago gives way.
#pragma once

#include <list>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/model/round_history.h"
#include "decision/settings.h"

namespace ccld::decision {

class ReplayHistory {
 public:
  explicit ReplayHistory(const Settings& settings) : settings_(settings) {}

  void set_rank_count(int rank_count) { rank_count_ = rank_count; }
  // False: this rank has already reported it.
  bool round(RoundKey, Rank, const Signature&, const RoundCell&);
  // Those that all ranks have reported since the last call, of one operation in the order of its replays.
  std::vector<RoundEntry> take_complete();

  // The newest replay of the operation that all ranks have ended; 0: none.
  uint32_t newest_complete(OpSeq) const;
  bool reported(RoundKey, Rank) const;

  uint64_t rounds() const { return rounds_; }    // complete ones so far
  uint64_t evicted() const { return evicted_; }  // incomplete ones that gave way

 private:
  static constexpr size_t operations_max = 1 << 16;

  const Settings& settings_;
  int rank_count_ = 0;
  uint64_t rounds_ = 0, evicted_ = 0;
  // While it waits for further ranks: of those that have reported it.
  struct Entry {
    Signature signature;
    absl::flat_hash_map<int32_t, RoundCell> cells;
  };
  absl::flat_hash_map<RoundKey, Entry> entries_;
  std::list<RoundKey> by_age_;   // may name entries that are gone
  std::vector<RoundKey> complete_;
  absl::flat_hash_map<uint64_t, uint32_t> taken_;  // newest complete replay of an operation: what repeats it is late
};

}  // namespace ccld::decision
