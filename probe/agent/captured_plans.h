// Operations and calls that were recorded into graphs: which kernel carries which, and which replay of it is running.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "probe/agent/finished_rounds.h"
#include "probe/agent/kernel.h"
#include "probe/agent/sampling.h"

namespace ccld::probe {

// Operations and calls that were recorded into graphs and may be replayed (about 1 MiB); beyond, the kernel that was
// recorded first is forgotten (and counted), and its replays are not followed any more.
constexpr size_t captured_max = 8192;
// Of rounds that a sample has seen in flight, beside the one that saw their end, the stages of links are told. A step
// that waits for less than the time between two samples is seen to wait for all of it, or not at all, as often as makes
// the mean over many rounds right.
constexpr uint32_t link_samples_min = 2;

class CapturedPlans {
 public:
  struct Plan {
    std::vector<abi::OpRecord> operations;
    std::vector<abi::P2pRecord> calls;
    uint64_t channel_mask = 0;
    uint32_t replay_slot = 0;
    uint32_t last_replay = 0;
    bool uncounted = false;  // without a slot, and runs were missed: its replays have no number any more
  };

  // Both must outlive it.
  CapturedPlans(const abi::FrameView& frame, const Rows& rows) : frame_(frame), rows_(rows) {}

  // A record of a kernel that is known, and of one that is not: a call may be known to be captured before that.
  void remember(const abi::OpRecord&);
  void remember(const abi::P2pRecord&);
  void expect(const abi::OpRecord&, uint64_t number) { operations_ahead_.push_back(number); }
  void expect(const abi::P2pRecord&, uint64_t number) { calls_ahead_.push_back(number); }
  void look_for_expected();

  // Kernels may begin without a word of the host, or records are waited for.
  bool any() const { return channel_mask_ != 0 || !operations_ahead_.empty() || !calls_ahead_.empty(); }
  uint64_t channel_mask() const { return channel_mask_; }
  const Plan* find(uint32_t token) const;

  // Runs were missed: replays that no slot counts have no number any more.
  void lose_count();
  void finish_replay(Kernel&, const FinishedRound& measured, FinishedRounds&, Sampling&);

  uint64_t forgotten() const { return forgotten_; }

 private:
  template <class Record>
  Plan* plan_of(const Record&);
  template <class Record>
  void look_for_expected(std::deque<uint64_t>& ahead);
  void forget_oldest();

  const abi::FrameView& frame_;
  const Rows& rows_;
  std::map<uint32_t, Plan> plans_;  // by token
  std::deque<uint32_t> order_;
  std::deque<uint64_t> operations_ahead_, calls_ahead_;
  size_t items_ = 0;
  uint64_t channel_mask_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace ccld::probe
