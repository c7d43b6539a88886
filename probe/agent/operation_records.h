// The collective operations, Send and Recv calls that are entered and not completed, as the training path records them.
//
// Contract
//   What the frame does not show is never guessed: operations without a kernel, or run by means that write nothing,
//   count as completed when they were handed over. Memory is bounded by the operations in flight (CUDA's launch queue)
//   and captured_max.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "probe/agent/captured_plans.h"
#include "probe/agent/finished_rounds.h"
#include "probe/agent/kernel.h"
#include "probe/agent/sampling.h"

namespace ccld::probe {

using Kernels = std::vector<std::unique_ptr<Kernel>>;

class OperationRecords {
 public:
  // The words that the training path counts in.
  struct Counts {
    uint64_t entered_op_seq = 0, launched_op_seq = 0, launched_plan = 0, entered_p2p = 0, launched_p2p = 0;
    uint64_t captured_plans = 0, unseen_while_stopped = 0;
    bool operator==(const Counts& o) const {
      return entered_op_seq == o.entered_op_seq && launched_op_seq == o.launched_op_seq &&
             launched_plan == o.launched_plan && entered_p2p == o.entered_p2p && launched_p2p == o.launched_p2p &&
             captured_plans == o.captured_plans && unseen_while_stopped == o.unseen_while_stopped;
    }
  };
  // One that is entered and not completed.
  template <class Record>
  struct Item {
    uint64_t number = 0;
    bool known = false;  // the record was read
    bool done = false;
    uint64_t passed_by_ns = 0;  // launch of a later one that has ended before this one was planned
    Record record{};
    bool launched() const { return is_launched(record); }
  };
  using Operation = Item<abi::OpRecord>;
  using Call = Item<abi::P2pRecord>;

  // All must outlive it.
  OperationRecords(const abi::FrameView& frame, const Rows& rows, FinishedRounds& finished)
      : frame_(frame), rows_(rows), finished_(finished), captured_(frame, rows) {}

  Counts read_counts() const;
  const Counts& counts() const { return counts_; }  // as of the last sample

  // In a sample, in this order. `counts`: as read now, if they have changed.
  void begin_sample() { fresh_ = false; }
  void take_new(const Counts& counts, Sampling&);
  // Reads what is not known yet, and concludes what no rows will tell of.
  void refresh(bool kernels_run, Sampling&);
  // Reads what was launched since then. False: all was read in this sample.
  bool catch_up(bool kernels_run, Sampling&);
  // Ends what the kernel carried.
  void finish(Kernel&, const FinishedRound& measured, Sampling&);
  // Kernels run in the order of their tokens: one that has left no rows while a later one has begun (in an earlier
  // sample, so that all its rows had been looked for) is over, or was never launched.
  void retire_passed_by(uint32_t newest_token, const Kernels& running, Sampling&);
  void pop_done();
  CapturedPlans& captured() { return captured_; }

  bool any() const { return !operations_.empty() || !calls_.empty(); }
  const std::deque<Operation>& operations() const { return operations_; }  // oldest first
  const std::deque<Call>& calls() const { return calls_; }
  const CapturedPlans& captured() const { return captured_; }
  uint64_t completed_op_seq() const { return completed_op_seq_; }
  uint64_t watched_channels() const { return watched_mask_; }  // on which something may begin

  Cargo cargo_of(uint32_t token) const;
  // Of the oldest kernel that was handed over and has not begun; 0: none.
  uint32_t next_token() const;

 private:
  template <class Record>
  void append(std::deque<Item<Record>>&, uint64_t from, uint64_t to, uint64_t unseen, Sampling&);
  template <class Record>
  static void take_back(std::deque<Item<Record>>&, uint64_t to, uint64_t* settled);
  template <class Record>
  void refresh(std::deque<Item<Record>>&, uint64_t* settled, Sampling&);
  template <class Record>
  void refresh(Item<Record>&, Sampling&);
  template <class Record>
  void refresh_captured(Item<Record>&, Sampling&);
  template <class Record>
  bool read(Item<Record>&, Sampling&);
  template <class Record>
  uint8_t ended_without_rows(const Record&) const;
  template <class Record>
  void end(Item<Record>&, uint64_t* enter_ns, uint64_t* launch_ns);
  void conclude(Operation&, uint8_t flags, Sampling&);
  void conclude(Call&, uint8_t flags, Sampling&);
  template <class Record>
  void retire_passed_by(std::deque<Item<Record>>&, uint32_t newest_token, const Kernels& running, Sampling&);
  void ended_in_turn(uint64_t enter_ns, uint64_t launch_ns, Sampling&);

  const abi::FrameView& frame_;
  const Rows& rows_;
  FinishedRounds& finished_;
  CapturedPlans captured_;
  Counts counts_;
  std::deque<Operation> operations_;
  std::deque<Call> calls_;
  uint64_t completed_op_seq_ = 0;
  uint64_t watched_mask_ = 0;
  uint64_t settled_op_seq_ = 0, settled_call_ = 0;  // up to there nothing more is to be read
  bool fresh_ = false;                              // read again in this sample
};

const Kernel* kernel_with(const Kernels&, uint32_t token);  // nullptr: none

}  // namespace ccld::probe
