// Several communicators, one cause: a communicator that only waits for a process which itself is stuck in another one
// is a victim. (Beyond the paper, which looks at one communicator at a time.)
//
// Contract: pure. Follows absent culprits from communicator to communicator; ends at one whose culprits are stuck
// nowhere else, or closes a cycle: communicators that were entered in different orders.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

// A communicator that stands still, with what location said about it.
struct StuckComm {
  const Communicator* comm = nullptr;
  const Finding* finding = nullptr;
};

struct Cause {
  CommUid comm;                // where the cause is; the communicator itself if it is no victim
  std::vector<CommUid> cycle;  // not empty: the communicators of the cycle, in order
};

Cause find_cause(CommUid start, const absl::flat_hash_map<CommUid, StuckComm>& stuck);

}  // namespace ccld::decision
