// One clock for all GPUs of a trace, over the whole recording: that of the service, on which the incidents are, too.
//
// How: telemetry is cut into windows. In each, timeline/clocks.h compares the GPUs by their collectives and Sends, and
// their hosts' clocks tie them to the service's. That gives a knot for each GPU: what to add to its clock then. Between
// knots it is interpolated, so that time never jumps and a kernel never ends before it begins.
//
// How far a knot may be wrong is what the order of events proves: no collective that needs everybody ended anywhere before
// it began everywhere, no Recv ended before its Send began. That is an interval by which the GPU's clock may be moved
// against all others together. Where nothing is proven only the hosts' clocks are known. Knots that say less than their
// neighbours, even after the most that clocks may drift until then, are dropped.
//
// Times of a host are put on its GPU's clock: at least once in a window a kernel begins as soon as it was launched.
// The proxies' realtime is put on the host's clock by the batch that reported it.
//
// Contract: add() every batch in order, finish() once, then only reading. Bounded: at most knots_max knots for each GPU
// (windows become longer), and the timeline's own bounds. No I/O, no clock of its own. Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "decision/model/processes.h"
#include "decision/settings.h"
#include "decision/trace/directory.h"
#include "decision/timeline/clocks.h"
#include "decision/timeline/matching.h"
#include "decision/timeline/timeline.h"

namespace ccld::decision::trace {

struct Knot {
  uint64_t device_ns = 0;                // of the GPU's clock
  int64_t add_ns = 0;                    // to get the service's, modulo 2^64
  int64_t launch_least_ns = INT64_MAX;   // GPU's clock minus its host's, at least; INT64_MAX: not known
  // By how much the GPU's events may really be earlier or later than they are shown; infinite: not proven.
  double earlier_ns = 0, later_ns = 0;
};

class GpuClock {
 public:
  explicit GpuClock(std::vector<Knot> knots = {}, int64_t host_add_ns = 0);
  Nanoseconds of_device(uint64_t device_ns) const;
  // CLOCK_MONOTONIC of its host.
  Nanoseconds of_host(uint64_t monotonic_ns) const;
  const std::vector<Knot>& knots() const { return knots_; }

 private:
  std::vector<Knot> knots_;
  struct HostKnot {
    uint64_t host_ns;
    int64_t to_device_ns;
  };
  std::vector<HostKnot> host_knots_;
  int64_t host_add_ns_;  // without knots
};

class GpuClocks {
 public:
  // `gpus`: indices of the directory, both must outlive the object.
  GpuClocks(const Directory&, const std::vector<int>& gpus, const Settings&);
  GpuClocks(const GpuClocks&) = delete;
  void add(const Batch&, Nanoseconds now_ns);
  void finish(Nanoseconds now_ns);

  const GpuClock& of(int gpu) const { return clocks_[static_cast<size_t>(gpu)]; }  // one of `gpus`
  Nanoseconds earliest_ns() const { return earliest_ns_; }  // begin of the first call or kernel; INT64_MAX: none

 private:
  struct Gpu {
    int index;
    std::vector<Knot> knots;
    int64_t arrival_least_ns = INT64_MAX;  // arrival of a report minus the end that it tells
    uint64_t first_device_ns = 0, first_host_ns = 0;  // 0: none
  };
  Gpu* gpu(CommUid, Rank);
  template <class Message>
  void take(const Message&, int ranks, Nanoseconds now_ns);
  void end_window(Nanoseconds now_ns);
  static void prove(const timeline::Timeline&, const timeline::Matches&, const timeline::Clocks&, std::vector<Knot>&);

  const Directory& directory_;
  Settings settings_;
  size_t timeline_gpus_ = 0;
  timeline::Timeline timeline_;
  std::vector<Gpu> gpus_;
  std::vector<int> place_;                // of each GPU of the directory in gpus_; nobody: it is not shown
  std::vector<ClockMap> process_clocks_;  // by process of the directory
  std::vector<bool> heard_;               // likewise
  std::vector<GpuClock> clocks_;          // by GPU of the directory
  Nanoseconds window_ns_, started_ns_ = 0, earliest_ns_ = INT64_MAX;
  bool begun_ = false;
};

}  // namespace ccld::decision::trace
