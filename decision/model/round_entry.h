// A round as all ranks reported it: what each measured, and which signatures they gave. (Paper, section 5.1: the Trace
// ID labels a round.) Plain values.
#pragma once

#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "decision/model/events.h"

namespace ccld::decision {

// One rank's part of a round.
struct RoundCell {
  static constexpr uint8_t no_group = 0xff;
  uint64_t begin_device_ns = 0, end_device_ns = 0;
  Nanoseconds gap_ns =
      -1;  // from the end of the previous operation on this rank to the begin of this one; -1: not known
  uint32_t send_changes = 0, recv_changes = 0;
  uint32_t kernel_operations = 1;  // operations that share the kernel; only the first of them is timed
  uint8_t group = no_group;        // of RoundEntry::groups
  bool reported = false, timed = false;
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

  const SignatureGroup* majority() const;  // the largest group; nullptr: none or a tie
  const Signature* signature() const;      // of a largest group; nullptr: none
  uint32_t signed_ranks() const;
};

}  // namespace ccld::decision
