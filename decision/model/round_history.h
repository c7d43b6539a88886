// Rounds of one communicator, matched by operation number across ranks: signatures as soon as any rank names them,
// times when a rank reports the finished round. Bounded: the oldest operation gives way. (Paper, section 5.1: the Trace
// ID labels a round; section 4.1.2: the Operation Type Set.)
//
// Contract: plain state, no clock, not thread-safe. Every report may come late, twice, in any order, or never.
// What it costs: while a round waits for further ranks, 28 bytes for each rank (RoundCells) and 40 for the round.
#pragma once

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "decision/model/round_cells.h"
#include "decision/model/round_entry.h"
#include "decision/model/signature.h"
#include "decision/model/signature_table.h"
#include "decision/settings.h"

namespace ccld::decision {

class RoundHistory {
 public:
  explicit RoundHistory(const Settings& settings) : settings_(settings) {}
  RoundHistory(const RoundHistory&) = delete;

  void set_rank_count(int rank_count);
  void signature(OpSeq, Rank, const Signature&, Nanoseconds now_ns);
  // `cell` without group; ignored if this rank has already reported this round.
  void round(OpSeq, Rank, const Signature&, const RoundCell& cell, Nanoseconds now_ns);
  // The rank is about to report this operation and those next to it.
  void prefetch(OpSeq op, Rank rank) const { cells_.prefetch(op, static_cast<size_t>(rank.value)); }

  // Rounds that all ranks have reported since the last call, in order. An entry lives as long as the call of `visit`.
  void visit_complete(absl::FunctionRef<void(const RoundEntry&)> visit);
  // Rounds for whose reports there has been time enough (`rounds_overdue_s`) and that at least half of the ranks have
  // reported, in order, once; what comes later still counts for signatures. An entry lives as long as the call of
  // `visit`.
  void visit_overdue(Nanoseconds now_ns, absl::FunctionRef<void(const RoundEntry&)> visit);
  std::vector<RoundEntry> take_complete();
  bool has_complete() const { return !complete_.empty(); }
  // So many that their memory is worth having back before the next look.
  bool has_many_complete() const { return complete_.size() >= 2 * RoundCells::block_rounds; }

  // Operations whose signatures differ and that nobody has settled yet, lowest first.
  const std::vector<OpSeq>& mismatched() const { return mismatched_; }
  void settle(OpSeq);

  // Valid until the next call of anything, of any communicator in this thread. Cells only of a round whose signatures differ. nullptr: not known, or over.
  const RoundEntry* find(OpSeq) const;
  const Signature* signature_at(OpSeq) const;        // of most ranks; nullptr: not known
  const Signature* signature_of(OpSeq, Rank) const;  // of this rank; nullptr: not known
  OpSeq oldest() const;
  uint64_t rounds() const { return rounds_; }    // complete ones so far
  uint64_t evicted() const { return evicted_; }  // incomplete ones that gave way

 private:
  // Complete operations whose signatures stay for comparison of shifted sequences.
  static constexpr size_t settled_kept = 64;

  using Cell = RoundCells::Cell;
  // What few rounds have.
  struct Extra {
    std::vector<SignatureGroup> groups;  // all of them, if there are several
    Nanoseconds mismatch_ns = 0;
  };
  struct Row {
    OpSeq op;
    Cell* cells = nullptr;  // of RoundCells; nullptr: the row is over
    std::unique_ptr<Extra> extra;
    uint32_t signature = SignatureTable::none;  // of the only group, if there is one
    uint32_t ranks = 0;                         // in it
    uint32_t reported = 0;
    bool complete = false, taken = false, visited = false;
    bool has_groups() const { return extra && !extra->groups.empty(); }
  };
  static_assert(sizeof(Row) == 40);
  struct Settled {
    OpSeq op;
    uint32_t signature;
  };
  // The newest operation that was known then.
  struct Mark {
    Nanoseconds at_ns;
    OpSeq newest;
  };

  size_t row_index(OpSeq) const;  // of the first row that is not before it
  Row* row_at(OpSeq) const;
  Row* touch(OpSeq, Rank);
  Cell& cell_of(const Row& row, Rank rank) const { return RoundCells::of(row.cells, cells_.pages().slot(static_cast<size_t>(rank.value))); }
  const Settled* settled_at(OpSeq) const;
  void release(Row&);
  size_t group_count(const Row&) const;
  SignatureGroup group(const Row&, size_t) const;
  void set_group(Row&, size_t, const SignatureGroup&);
  const Signature* main_signature(const Row&) const;
  static Extra& extra(Row&);
  void assign(Row&, Cell&, const Signature&, Nanoseconds now_ns);
  void assign_slowly(Row&, Cell&, const Signature&, Nanoseconds now_ns);
  void fill(const Row&, bool with_cells, RoundEntry&) const;
  void visit(Row&, absl::FunctionRef<void(const RoundEntry&)> visit);
  void check_complete(Row&);
  void settle_taken();
  void drop_oldest_row();
  void trim();

  const Settings& settings_;
  int rank_count_ = 0;
  size_t ranks_ = 0;     // up to the highest that has reported
  uint64_t floor_ = 0;  // everything up to here is over
  uint64_t rounds_ = 0, evicted_ = 0;
  size_t taken_rows_ = 0;
  mutable size_t hint_ = 0;  // reports name operations in order
  std::vector<Row> rows_;    // by operation
  std::vector<Settled> settled_;
  RoundCells cells_;
  SignatureTable signatures_;
  std::vector<OpSeq> complete_;
  std::vector<OpSeq> mismatched_;
  std::vector<Mark> marks_;  // by time
  OpSeq overdue_;            // up to here, rounds were visited
};

}  // namespace ccld::decision
