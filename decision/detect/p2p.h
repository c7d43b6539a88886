// Send and Recv: a call whose other side never comes. (Beyond the paper, which looks at collectives.)
//
// The k-th send of a to b meets the k-th receive of b from a. A rank that waits in a launched call for a peer that has
// not made the matching call waits for that peer; if the peer waits in a call of its own, it waits for the next one,
// and so on. What is at the end, idle, is silent: an H1 of that rank. A circle of such waits is a wrong order of calls
// (H2).
//
// Contract: pure. Says nothing rather than guess: bubbles of a pipeline are normal, so a wait counts only if nothing
// has moved on the communicator for p2p_hang_suspect_s, and the silent rank has done nothing anywhere else either;
// where a snapshot is outdated, cut off or stopped, or both sides are in their calls, there is no finding.
#pragma once

#include <functional>
#include <optional>

#include "decision/locate/finding.h"
#include "decision/model/communicator.h"

namespace ccld::decision {

// Since when the process has done nothing on any other communicator: instant of the service's clock.
using MovedElsewhere = std::function<Nanoseconds(const ProcessModel&, CommUid except)>;

std::optional<Finding> find_p2p_hang(const Communicator&, const ProcessTable&, const Settings&, Nanoseconds now_ns,
                                     const MovedElsewhere&);

}  // namespace ccld::decision
