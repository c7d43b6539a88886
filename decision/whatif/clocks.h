// How the clocks of a job's GPUs differ, from what their kernels prove about each other.
//
// A Recv cannot end before its Send has begun, and a collective that needs everybody not before it has begun on all
// ranks. That proves an interval for each two GPUs. Within it the ends of such collectives decide, for they come on all
// ranks within the transfer: the shortest operations compare clocks best. While all operations are slow, ranks may
// leave each of them in the same order: then what was found out before counts more, until it is
// whatif_clocks_times_min times as doubtful, for clocks drift. Ends that contradict what is proven say nothing (a
// process that got no processor); then, and where only Send and Recv connect two groups of GPUs, hosts' clocks decide
// (a kernel begins soon after its launch at least once; a batch arrives soon after it was sent at least once).
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/settings.h"
#include "decision/whatif/matching.h"

namespace ccld::decision::whatif {

// By GPU of the timeline.
struct HostClock {
  bool known = false;
  double device_to_service_ns = 0;  // to be added to a device time; only differences between GPUs mean something
  int machine = -1;                 // GPUs of one have equal numbers; -1: not known
};

struct Clocks {
  std::vector<uint64_t> origin_ns;  // device time of the first kernel of each GPU
  std::vector<double> shift_ns;     // to be added to the time since then to get common time
  std::vector<int> component;       // GPUs of one component can be compared
  int components = 0;
  std::vector<ClockPair> pairs;  // that tell it, of this window and of earlier ones
  // By how much a GPU's least time from launch to begin exceeds that of the others: its kernels always queue.
  std::vector<double> always_queued_ns;
  double common_ns(int gpu, uint64_t device_ns) const {
    const auto g = static_cast<size_t>(gpu);
    return static_cast<double>(static_cast<int64_t>(device_ns - origin_ns[g])) + shift_ns[g];
  }
};

Clocks compare_clocks(const Timeline&, const Matches&, const std::vector<HostClock>&, const Settings&);

}  // namespace ccld::decision::whatif
