// Which ranks' counts and durations the rules of the paper compare with each other.
#pragma once

#include <vector>

#include "decision/model/communicator.h"

namespace ccld::decision {

// Ring: one group of all ranks. Tree: one group for each depth, because only ranks of one layer are comparable.
std::vector<std::vector<Rank>> comparable_groups(const Communicator&, abi::Algorithm);

// Barriers are dropped: an AllReduce of fewer bytes than barrier_bytes_max (4).
bool is_barrier_by_paper(const Signature&, const Settings&);

}  // namespace ccld::decision
