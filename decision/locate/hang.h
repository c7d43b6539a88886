// Location of a hang inside one communicator: H1 by how far each rank came, H3 by the walk.
// (Paper, section 4.2.2, figure 7; H2 comes from the signature history, see mismatch.h.)
//
// Contract: pure; looks only at what is known of one communicator. O(ranks + connection endpoints).
#pragma once

#include "decision/detect/hang_view.h"
#include "decision/locate/finding.h"

namespace ccld::decision {

// A rank that is not in the operation: how far it came, and why.
Culprit absent_culprit(const Communicator&, const HangView&, Rank);
Finding locate_hang(const Communicator&, const HangView&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
