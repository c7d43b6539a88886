// The rules of the paper as published (section 4.2.2), for `rules=paper`: to measure both on the same recordings.
#pragma once

#include "decision/locate/finding.h"
#include "decision/locate/hang.h"

namespace ccld::decision {

// H1: the operation counter that did not advance. H2: all entered and some do not hang. H3: all hang; the fewest
// SendCount and RecvCount, where one that is late counts zero.
Finding locate_hang_paper(const Communicator&, const HangView&, const Settings&, Nanoseconds now_ns);

// Ring: one group of all ranks. Tree: one group for each depth, because only ranks of one layer are comparable.
std::vector<std::vector<Rank>> comparable_groups(const Communicator&, abi::Algorithm);

}  // namespace ccld::decision
