// Who makes a job slow, by what the job would gain without: the smallest set of GPUs, hosts and connections that
// explains the loss. (Paper, section 4.2.2, S1 to S3, which compares durations within one communicator.)
//
// Healthy is what peers do: GPUs with the same role at the same occurrence (the same operation number of communicators
// that do the same), connections that carry the same bytes; or what there was before (past.h), whichever differs more.
// Imbalance that moves from rank to rank averages out and needs no rule; nor do victims, who have no time of their own.
//
// Contract: pure. Shares are of the length of the graph.
#pragma once

#include <optional>
#include <vector>

#include "decision/measure/passage.h"
#include "decision/settings.h"
#include "decision/whatif/graph.h"
#include "decision/whatif/past.h"
#include "decision/whatif/slow_collectives.h"

namespace ccld::decision::whatif {

// What is known of a GPU beside its kernels.
struct GpuFacts {
  int host = none;                        // GPUs of one host have equal numbers
  int process = none;                     // and of one process
  std::optional<double> proxy_away_part;  // of the window, in which it did not poll
  int machine = none;                     // of MachineClocks
  std::optional<double> turn_wait_ns;     // how long its threads waited each time that they got a processor
};

struct Cause {
  enum class Kind { gpu, host, wire, proxy, connection, collectives };
  Kind kind = Kind::gpu;
  int gpu = none;                            // of gpu, host and proxy; of wire and connection: the sender's
  int collectives = none;                    // of collectives: which of those given
  std::vector<int> transfers;                // of wire, proxy and connection: of the graph
  double gain_ns = 0;                        // by how much the job would be shorter, the other causes gone
  double measured_ns = 0, reference_ns = 0;  // own time a kernel, or a transfer, and what it would be
  int peers = 0;                             // that say so; 0: its past, or
  bool expected = false;                     // the settings (network_rate_min_mbit_s)
  bool proxies_came_by = false;              // of transfers: at both ends, all the time
  bool staged = false;                       // of transfers: stages of links say that it is between the GPUs
};

// A rank that comes late.
inline bool is_late(const Cause& c) { return c.kind == Cause::Kind::gpu || c.kind == Cause::Kind::host; }

struct Waiting {
  CommUid comm;
  OpSeq op;            // in which they wait most; 0: Send or Recv
  double less_ns = 0;  // by which each would wait less, on average
};

struct Explanation {
  double length_ns = 0, length_without_ns = 0;  // measured, and without the causes
  double fixed_ns = 0;                          // of both, what no cause could change
  std::vector<Cause> causes;                    // the largest first; empty: nothing costs enough
  std::vector<double> transfer_less_ns;         // by transfer of the graph: by how much it is slow
  std::vector<Waiting> waiting;                 // communicators whose ranks wait because of the causes
};

// GPUs that need longer than their peers, or than before.
struct Lateness {
  Kinds kinds;
  Beyond beyond;           // the better supported of peers and past
  std::vector<bool> late;  // by GPU: more than chance, and more than whatif_gain_min
  Seldom seldom;           // what the past is to know of this window
};
Lateness find_late(const Graph&, const Timeline&, const Past&, const Settings&);

// `passages`: by transfer of the graph (passages.h).
Explanation explain(const Graph&, const Timeline&, const Past&, const Lateness&, const std::vector<GpuFacts>&,
                    const std::vector<Passage>& passages, const std::vector<SlowCollectives>&, const Settings&);

}  // namespace ccld::decision::whatif
