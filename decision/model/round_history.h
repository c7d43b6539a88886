// Rounds of one communicator, matched by operation number across ranks: signatures as soon as any rank names them,
// times when a rank reports the finished round. Bounded: the oldest operation gives way. (Paper, section 5.1: the Trace
// ID labels a round; section 4.1.2: the Operation Type Set.)
//
// Contract: plain state, no clock, not thread-safe. Every report may come late, twice, in any order, or never.
// What it costs: while a round waits for further ranks, 28 bytes for each rank (a Cell) and some 60 for the round; its
// times are kept in 32-bit floats, exact to less than a ten-millionth. Cells of one rank and 8 consecutive rounds lie
// side by side, as they arrive.
#pragma once

#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "decision/model/events.h"
#include "decision/settings.h"

namespace ccld::decision {

// Where two signatures differ: what the caller chose, or what NCCL chose.
enum class SignatureField { none, function, count, datatype, reduction, root, algorithm, protocol, channels };
const char* name(SignatureField);

// The first field that differs, in the order above. Algorithm, protocol and channels count only where both know them;
// functions whose ranks legitimately differ (point-to-point, AllGatherV) are compared by function only.
SignatureField difference(const Signature&, const Signature&);
std::string field_text(const Signature&, SignatureField);

// One rank's part of a round.
struct RoundCell {
  static constexpr uint8_t no_group = 0xff;
  uint64_t begin_device_ns = 0, end_device_ns = 0;
  Nanoseconds gap_ns =
      -1;  // from the end of the previous operation on this rank to the begin of this one; -1: not known
  Nanoseconds queued_ns =
      0;  // begin on the device minus launch on the host: different clocks, only its changes mean something
  uint32_t send_changes = 0, recv_changes = 0;
  uint32_t kernel_operations = 1;  // operations that share the kernel; only the first of them is timed
  uint8_t group = no_group;  // of RoundEntry::groups
  bool reported = false, timed = false, has_queued = false;
  Nanoseconds duration_ns() const { return static_cast<Nanoseconds>(end_device_ns - begin_device_ns); }
};

struct SignatureGroup {
  Signature signature;
  uint32_t ranks = 0;
};

struct RoundEntry {
  OpSeq op;
  uint32_t replay = 0;
  std::vector<RoundCell> cells;                   // by rank; may be shorter than the communicator
  absl::InlinedVector<SignatureGroup, 1> groups;  // distinct signatures; normally one
  uint32_t reported = 0;
  Nanoseconds mismatch_ns = 0;  // when signatures were first seen to differ
  std::vector<std::pair<Rank, LinkStages>> links;

  const SignatureGroup* majority() const;  // the largest group; nullptr: none or a tie
  const Signature* signature() const;      // of a largest group; nullptr: none
  uint32_t signed_ranks() const;
};

class RoundHistory {
 public:
  explicit RoundHistory(const Settings& settings) : settings_(settings) {}
  RoundHistory(const RoundHistory&) = delete;

  void set_rank_count(int rank_count);
  void signature(OpSeq, Rank, const Signature&, Nanoseconds now_ns);
  // `cell` without group; ignored if this rank has already reported this round.
  void round(OpSeq, Rank, const Signature&, const RoundCell& cell, Nanoseconds now_ns);
  void link(Rank, const LinkStages&);

  // Rounds that all ranks have reported since the last call, in order. An entry lives as long as the call of `visit`.
  void visit_complete(absl::FunctionRef<void(const RoundEntry&)> visit);
  std::vector<RoundEntry> take_complete();
  bool has_complete() const { return !complete_.empty(); }
  // So many that their memory is worth having back before the next look.
  bool has_many_complete() const { return complete_.size() >= 2 * block_rounds; }

  // Operations whose signatures differ and that nobody has settled yet, lowest first.
  const std::vector<OpSeq>& mismatched() const { return mismatched_; }
  void settle(OpSeq);

  // Valid until the next call of anything. Cells only of a round whose signatures differ. nullptr: not known, or over.
  const RoundEntry* find(OpSeq) const;
  const Signature* signature_at(OpSeq) const;        // of most ranks; nullptr: not known
  const Signature* signature_of(OpSeq, Rank) const;  // of this rank; nullptr: not known
  OpSeq oldest() const;
  uint64_t rounds() const { return rounds_; }    // complete ones so far
  uint64_t evicted() const { return evicted_; }  // incomplete ones that gave way

 private:
  // Complete operations whose signatures stay for comparison of shifted sequences.
  static constexpr size_t settled_kept = 64;
  static constexpr size_t block_rounds = 8;
  static constexpr size_t blocks_free_max = 1;

  struct Cell {
    uint32_t begin_low, begin_high;       // RoundCell::begin_device_ns
    float duration_ns, gap_ns, queued_ns; // queued: minus the rank's queued_origin_
    uint16_t send_changes, recv_changes, kernel_operations;
    uint8_t group;                        // of RoundEntry::groups, plus 1; 0: none
    uint8_t flags;
  };
  static_assert(sizeof(Cell) == 28);
  // Of all ranks, for block_rounds consecutive operations; by rank, then by operation.
  struct Block {
    std::vector<Cell> cells;
    uint32_t rows = 0;  // that have their cells here
  };
  // What few rounds have.
  struct Extra {
    std::vector<SignatureGroup> groups;  // all of them, if there are several
    Nanoseconds mismatch_ns = 0;
    std::vector<std::pair<Rank, LinkStages>> links;
  };
  struct Row {
    OpSeq op;
    Block* block = nullptr;
    std::unique_ptr<Extra> extra;
    SignatureGroup first;  // the only group, if there is one
    uint32_t reported = 0;
    bool signed_ = false, complete = false, taken = false;
  };
  struct Settled {
    OpSeq op;
    Signature signature;
  };

  size_t row_index(OpSeq) const;  // of the first row that is not before it
  Row* row_at(OpSeq) const;
  Row* touch(OpSeq, Rank);
  Cell& cell(const Row&, Rank) const;
  const Settled* settled_at(OpSeq) const;
  Block* new_block();
  void release(Row&);
  static SignatureGroup& group(Row&, size_t);
  static size_t group_count(const Row&);
  static const Signature* main_signature(const Row&);
  static Extra& extra(Row&);
  void assign(Row&, Rank, const Signature&, Nanoseconds now_ns);
  void assign_slowly(Row&, Cell&, const Signature&, Nanoseconds now_ns);
  Cell pack(const RoundCell&, Rank);
  void unpack(const Cell&, size_t rank, RoundCell&) const;
  void fill(const Row&, bool with_cells, RoundEntry&) const;
  void check_complete(Row&);
  void drop_oldest_row();
  void trim();

  const Settings& settings_;
  int rank_count_ = 0;
  uint64_t floor_ = 0;  // everything up to here is over
  uint64_t rounds_ = 0, evicted_ = 0;
  size_t taken_rows_ = 0;
  mutable size_t hint_ = 0;  // reports name operations in order
  std::vector<Row> rows_;    // by operation
  std::vector<Settled> settled_;
  std::vector<std::unique_ptr<Block>> blocks_, free_blocks_;
  std::vector<int64_t> queued_origin_;  // by rank
  std::vector<OpSeq> complete_;
  std::vector<OpSeq> mismatched_;
  mutable RoundEntry found_;
};

}  // namespace ccld::decision
