// Cross-communicator causes: one cause for all communicators that are stalled by it. (Beyond the paper, which looks at
// one communicator at a time.)
//
// The waits of all stalled communicators (`Stall`) are followed over processes (wait_graph.h) to their ends:
//   inside   an operation that all ranks have entered, or calls whose kernels all run: the cause is on a GPU or a link
//   absent   a process that waits for nobody, or cannot report: the culprit
//   initialization   a communicator initialization that keeps a process from coming to others
//   cycle    processes that wait for each other: communicators, or calls, were entered in different orders
// Ends with one cause are merged: ranks absent from the same place, a host of which all processes are lost, one link or
// one GPU that several communicators use.
//
// Contract: pure; O(what is waited for + memberships).
#pragma once

#include <vector>

#include "decision/locate/wait_graph.h"

namespace ccld::decision {

enum class CauseKind { inside, absent, initialization, cycle };

struct Cause {
  CauseKind kind = CauseKind::inside;
  size_t home = 0;          // the stalled communicator to report it at
  bool calls = false;       // absent: in Send and Recv, not in the operation
  std::vector<Rank> ranks;  // of home. absent: the culprits; cycle: the members of the circle
  std::vector<CycleStep> cycle;
  std::vector<size_t> stalls;           // all that wait for it, home included
  int initialization = -1;              // of `initialization`: which; it has no home
  std::vector<size_t> initializations;  // communicators being initialized that wait for it
  Nanoseconds moved_ns = 0;  // the newest movement, on any communicator, of the processes that are waited for
  bool complete = true;      // all processes that are waited for have spoken for themselves just now
  // absent: all of them are lost, and the others stood still from then on: they do not speak, but that tells enough.
  bool fell_silent = false;
  // absent: some of them are blamed for what they said before the time of silence was over, or wait in a communicator
  // for somebody of whom that is true; soon they speak, or are known to be silent.
  bool outdated = false;
  // absent: all of them are missed in a barrier too, and there first: they may do what the barrier waits for.
  bool barrier = false;
};

// Ends of which nothing is known (a probe that an operator stopped, a list of calls that is cut off) are no causes.
std::vector<Cause> find_causes(const WaitGraph&, const std::vector<Stall>&);

}  // namespace ccld::decision
