// H3: follow who waits for whom, per channel, over (rank, thread group), to the end that does not wait.
// (Paper, section 4.2.2, "all hang": there the rank with the fewest counts. Measured: fewest counts were right in 31 of
// 37 rings and 13 of 37 trees, the walk over ranks in 37 and 32, the walk over (rank, thread group) in all.)
//
// Rules
//   A connection endpoint (`Lane`) that waits for data wants a step of its peer. The peer has posted less: follow to
//   the peer. It has posted the step: stop at the edge. An endpoint that waits for credit wants a slot. Its peer has
//   consumed too little: follow to the peer. It has consumed: stop at the edge. The walk also ends at a group that
//   neither waits nor polls nor ends (its GPU, or its process if the process is silent), and at one that has ended
//   without giving what is wanted (an inconsistency).
//   An endpoint whose peer is the NVLinks' switch (NVLS) waits for all GPUs of its node: follow to each that has not
//   ended and does not wait itself; one whose peer is a collective network (CollNet), for all GPUs of all nodes alike.
//   Kernels of Send and Recv are walked alike, along the endpoints between ranks whose kernels run. A rank that waits
//   for a call that was not made waits for a process (detect/p2p.h).
#pragma once

#include "decision/locate/finding.h"
#include "decision/locate/hang.h"

namespace ccld::decision {

// All ranks have begun the operation (or their state is not known), or some are in Send and Recv, and nothing moves.
Finding locate_inside(const Communicator&, const HangView&, const Settings&, Nanoseconds now_ns);

}  // namespace ccld::decision
