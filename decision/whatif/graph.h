// What each kernel of a job waited for, and how long everything would take if something had taken less.
// (Beyond the paper: section 4.2.2 names the rank with the least duration; here the loss of a cause is computed.)
//
// A kernel begins when the kernel before it on its GPU has ended and the GPU and its host have done their own work in
// between: its own time. A collective ends on each rank some time after the last rank has begun: its transfer. In a
// Broadcast or Reduce, and where a report was lost, a rank that ended before the last known rank began did not wait for
// it. A kernel that its rank did not report is among them, if others tell of it (unreported.h). A Recv ends some time
// after its Send has begun; a Send that found no room, after its Recv has, or after its Recv was launched, if the
// network has room for the rest: from then on steps are received. With these own times and transfers the measured times
// come out again; with others, what they would have been.
//
// Contract: pure. Common times are nanoseconds since the earliest kernel, as far as clocks can be compared (clocks.h).
// Linear in kernels and calls.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "decision/settings.h"
#include "decision/timeline/clocks.h"
#include "decision/timeline/timeline.h"

namespace ccld::decision::whatif {

using namespace timeline;  // everything here speaks of it

constexpr int none = -1;

struct Node {
  const Kernel* kernel = nullptr;
  int gpu = none;
  double begin_ns = 0, end_ns = 0;  // common time
  bool reported = true;             // false: begin and own time are not known (unreported.h)
  bool is_of_window = true;         // false: it is the last one of the window before
  int before = none;                // the kernel whose end came last before its begin, on the same GPU
  double own_ns = 0;                // from there to its begin; 0: there is none before it, or it is not known
  bool own_known = false;           // measured between two reports
  double host_ns = NAN;             // of that, until its launch; NaN: not known
  double queued_ns = 0;             // from its launch to its begin, at least; NaN: not known
  double transfer_ns = 0;           // from when all that it needs had begun to its end
  int group = none;                 // of a collective
  bool waited = true;               // false: it ended before the last one of its group began
  int first_need = 0, needs = 0;    // of Graph::needs: kernels of peers that must have begun
  int launch_need = none;           // a kernel of a peer that must have been launched
  // The kernel whose end came last before its launch, on the same GPU, and how long after that it was launched; none:
  // there is none, or it is not known when that was.
  int launched_after = none;
  double launched_after_ns = 0;
  double launch_ns() const { return begin_ns - std::max(0.0, queued_ns); }  // if it is known
};

// A Send and its Recv.
struct Transfer {
  int send = none, recv = none;  // nodes
  uint64_t bytes = 0;            // of the largest that the Recv's kernel carries: all of them end together
  uint64_t pair_seq = 0;
  double ns = 0;         // from when both had begun to the end of the Recv
  double doubt_ns = 0;   // by how much that may be wrong, as hosts' clocks tell it
  bool measured = true;  // false: one of them was not reported
};

struct Graph {
  std::vector<Node> nodes;                                // by GPU, then by begin
  std::vector<std::unique_ptr<const Kernel>> unreported;  // of the nodes that are not in the timeline
  std::vector<int> needs;
  std::vector<std::vector<int>> groups;  // nodes of a collective
  size_t whole_groups = 0;               // the first ones: that need everybody, of which no report is missing
  std::vector<Transfer> transfers;
  std::vector<std::pair<int, int>> gpus;  // of each GPU its first node, and one past its last
  std::vector<int> order;                 // of begins (node), ends (node + n) and groups (group + 2 n)
  // Mean over the GPUs: from the first begin of anything, or the end of what was before it, to its last end.
  double length_ns = 0;
  double turn_wait_ns = 0;                // what all host threads wait for each time that they want a processor
};

// nullopt: there is nothing in which GPUs depend on each other, or what is known contradicts itself.
std::optional<Graph> build_graph(const Timeline&, const Matches&, const Clocks&, const Settings&);

// Instead of the measured ones; by node.
struct Change {
  std::vector<float> own_less_ns, transfer_less_ns;
  explicit Change(size_t nodes) : own_less_ns(nodes), transfer_less_ns(nodes) {}
};
struct Length {
  double ns = 0;  // as Graph::length_ns
  // Of it, until the begin of what decides the rest, on average: nobody knows how much earlier that could have begun.
  double fixed_ns = 0;
};
// How long it would have taken. `waits_ns`, if given: by node, for how long it would have waited for the others.
Length length_with(const Graph&, const Change&, std::vector<double>* waits_ns = nullptr);

}  // namespace ccld::decision::whatif
