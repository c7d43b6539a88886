// Who makes a communicator hang, by the rules of the paper as published (section 4.2.2).
//
// Contract: pure.
#pragma once

#include "decision/detect/hang_view.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

// H1: the operation counter that did not advance. H2: all entered and some do not hang. H3: all hang; the fewest
// SendCount and RecvCount, where one that is late counts zero.
Finding locate_hang_paper(const Communicator&, const HangView&);

}  // namespace ccld::decision
