// Rounds of one communicator, matched by operation number across ranks: signatures as soon as any rank names them,
// times when a rank reports the finished round. Bounded: the oldest operation gives way. (Paper, section 5.1: the Trace
// ID labels a round; section 4.1.2: the Operation Type Set.)
//
// Contract: plain state, no clock, not thread-safe. Every report may come late, twice, in any order, or never.
#pragma once

#include <map>
#include <vector>

#include "absl/container/inlined_vector.h"
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
  uint32_t send_steps = 0, recv_steps = 0, send_changes = 0, recv_changes = 0;
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
  bool taken = false;           // complete and handed out; cells are gone unless signatures differ
  Nanoseconds mismatch_ns = 0;  // when signatures were first seen to differ
  std::vector<std::pair<Rank, LinkStages>> links;

  const SignatureGroup* majority() const;  // the largest group; nullptr: none or a tie
  const Signature* signature() const;      // of a largest group; nullptr: none
  uint32_t signed_ranks() const;
};

class RoundHistory {
 public:
  explicit RoundHistory(const Settings& settings) : settings_(settings) {}

  void set_rank_count(int rank_count);
  void signature(OpSeq, Rank, const Signature&, Nanoseconds now_ns);
  // `cell` without group; ignored if this rank has already reported this round.
  void round(OpSeq, Rank, const Signature&, const RoundCell& cell, Nanoseconds now_ns);
  void link(Rank, const LinkStages&);

  // Rounds that all ranks have reported since the last call, in order.
  std::vector<RoundEntry> take_complete();
  bool has_complete() const { return !complete_.empty(); }

  // Operations whose signatures differ and that nobody has settled yet, lowest first.
  const std::vector<OpSeq>& mismatched() const { return mismatched_; }
  void settle(OpSeq);

  const RoundEntry* find(OpSeq) const;
  const Signature* signature_of(OpSeq, Rank) const;  // of this rank; nullptr: not known
  OpSeq oldest() const { return entries_.empty() ? OpSeq{0} : OpSeq{entries_.begin()->first}; }
  uint64_t rounds() const { return rounds_; }    // complete ones so far
  uint64_t evicted() const { return evicted_; }  // incomplete ones that gave way

 private:
  static constexpr size_t settled_kept =
      64;  // complete operations whose signatures stay for comparison of shifted sequences
  RoundEntry* touch(OpSeq, Rank);
  void assign(RoundEntry&, Rank, const Signature&, Nanoseconds now_ns);
  void check_complete(RoundEntry&);
  void trim();

  const Settings& settings_;
  int rank_count_ = 0;
  uint64_t floor_ = 0;  // everything up to here is over
  uint64_t rounds_ = 0, evicted_ = 0;
  size_t taken_ = 0;  // entries that are tombstones
  std::map<uint64_t, RoundEntry> entries_;
  std::vector<OpSeq> complete_;
  std::vector<OpSeq> mismatched_;
};

}  // namespace ccld::decision
