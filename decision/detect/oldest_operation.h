// Which operation of a communicator is the oldest in flight, by the ranks whose word still counts: detection judges it, and
// the status shows the same one.
// Pure. O(ranks).
#pragma once

#include <optional>

#include "decision/detect/hang_view.h"

namespace ccld::decision {

// The newest snapshot of the rank is older than silence lasts: where it is now is not known.
bool outdated(const RankModel&, const ProcessTable&);

// The rank is in an operation, talks, and has said so recently. `life`: of the rank.
bool operation_counts(const RankModel&, Life life, const ProcessTable&);

// What a stopped or silent rank said last may long be over. nullopt: no rank counts.
std::optional<OpSeq> oldest_operation(const Communicator&, const ProcessTable&);

}  // namespace ccld::decision
