// How the clocks of a job's GPUs differ, from what their kernels prove about each other.
//
// A Recv cannot end before its Send has begun, and a collective that needs everybody not before it has begun on all
// ranks. That proves an interval for each two GPUs. The ends of such collectives come on all ranks within the transfer:
// the shortest operations compare clocks best. And clocks drift slowly, so they are still about as they were. GPUs are
// compared by what leaves the least doubt: ends, as much as the transfer took; an interval, whatif_clocks_times_min
// times its width, within which hosts' clocks decide (a kernel begins soon after its launch at least once; a batch
// arrives soon after it was sent at least once); what is known, until it is that many times as doubtful as something
// new. Ends that contradict what is proven say nothing (a process that got no processor), nor do those by which a clock
// would have jumped (of a tree that is slow in one of its branches). Where clocks contradict what is proven of all GPUs
// together, they are compared without what is known, too, and what contradicts less counts.
//
// Contract: pure.
#pragma once

#include <vector>

#include "decision/settings.h"
#include "decision/timeline/matching.h"

namespace ccld::decision::timeline {

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
  std::vector<int> by_kernels;  // GPUs with equal numbers are compared by their kernels, others by their hosts' clocks,
  double hosts_differ_ns = 0;   // which may be wrong by so much
  std::vector<ClockPair> pairs;  // that tell it, of this window and of earlier ones
  double doubt_ns = 0;           // the largest of these
  // By how much a GPU's least time from launch to begin exceeds that of the others: its kernels always queue.
  std::vector<double> always_queued_ns;
  double common_ns(int gpu, uint64_t device_ns) const {
    const auto g = static_cast<size_t>(gpu);
    return static_cast<double>(static_cast<int64_t>(device_ns - origin_ns[g])) + shift_ns[g];
  }
};

Clocks compare_clocks(const Timeline&, const Matches&, const std::vector<HostClock>&, const Settings&);

}  // namespace ccld::decision::timeline
