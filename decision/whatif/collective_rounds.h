// The collectives of a communicator in a window, as its links see them: when each rank began, how long the transfer
// took, and what steps waited for on every connection.
// Contract: pure. Nanoseconds of common time (clocks.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "decision/measure/machine_clocks.h"
#include "decision/model/communicator.h"
#include "decision/whatif/kinds.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

struct CollectiveRound {
  int group = none;  // of the graph
  size_t kind = 0;   // equal: the same operation, of a like size
  OpSeq op;
  Signature signature;
  double transfer_ns = 0;         // from the last begin to the last end
  std::vector<double> begins_ns;  // by rank; NaN: not known
  // By rank, when its receives were posted: with its launch, after its operation before; NaN: not known.
  std::vector<double> posted_ns;
  Links links;  // empty: no stages were reported
  // Ranks that also send to a switch of NVLinks or a collective network: nobody sees how long these keep a step.
  std::set<int32_t> out_of_sight;
};

// `groups`: those of the communicator.
std::vector<CollectiveRound> rounds_of(const Communicator&, const std::vector<int>& groups, const Graph&,
                                       const Timeline&, const Kinds&, MachineClocks&);

// The whole groups of each communicator.
std::map<CommUid, std::vector<int>> groups_by_communicator(const Graph&);

// Of a large communicator hardly any operation is reported by all ranks: what is slow in those that are, makes the
// others of their kind slow, too.
void add_incomplete(SlowCollectives&, const Graph&, const Kinds&);

}  // namespace ccld::decision::whatif
