// What is broken or slow, and since when. The mechanics ask; they do not know why.
#pragma once

#include <cstdint>
#include <vector>

#include "test/sim/instant.h"

namespace ccld::sim {

struct FrozenGroup {
  int process, comm;
  int channel;  // -1: all
  int group;    // -1: all of the channel
  Instant at;
};
// From the sender's host to the receiver's process; both processes, in the direction of the data.
struct BadLink {
  int sender, receiver;
  Instant cut_at = never;  // nothing arrives from then on
  Instant slow_at = never;
  double slow_factor = 1;  // times the wire's usual time for a step
};
struct SlowProxy {
  int process;
  Instant at;
  Nanoseconds delay_ns = 0;  // for each step it sends
  // It runs for the first part of each period only; 0: all the time.
  Nanoseconds period_ns = 0, running_ns = 0;
};

// The program of one process differs once from the others'.
enum class EditKind { none, other_signature, skip, additional, swap_with_next, other_bytes };
struct ProgramEdit {
  EditKind kind = EditKind::none;
  uint64_t iteration = 0;
  int action =
      0;  // index of the collective among the iteration's collectives; other_bytes: of the call among its calls
  int shape = -1;      // other_signature, additional: of what is called instead (index of Traffic::shapes)
  uint64_t bytes = 0;  // other_bytes
  int steps = -1;      // into which these are cut; -1: into as many as usual
};

struct ProcessConditions {
  // Host.
  Instant host_stops = never;     // its thread never comes back (what is queued on the GPU goes on)
  Instant launches_stop = never;  // the next call never returns: entered, not launched
  Instant late_at = never;        // from then on it comes late to operations
  Nanoseconds late_ns = 0;
  int late_every = 1;  // operations
  ProgramEdit edit;
  // GPU, proxy, network device.
  Instant gpu_dies = never;     // kernels stand still, nothing starts any more
  Instant gpu_blocked = never;  // what runs goes on, nothing starts any more
  Instant proxy_stops = never;  // the progress thread
  Instant nic_dead = never;     // its network device takes no send
  Instant slow_clock_at = never;
  double slow_clock_factor = 1;
};

struct Conditions {
  std::vector<ProcessConditions> processes;
  std::vector<FrozenGroup> frozen;
  std::vector<BadLink> links;
  std::vector<SlowProxy> slow_proxies;

  // Steps of this process's operations on this communicator may differ from a healthy round's from `t` on.
  bool touches_steps(int process, int comm, Instant t) const {
    const ProcessConditions& p = processes[process];
    if (p.gpu_dies <= t || p.proxy_stops <= t || p.nic_dead <= t) return true;
    for (const FrozenGroup& f : frozen)
      if (f.process == process && f.comm == comm && f.at <= t) return true;
    for (const BadLink& l : links)
      if ((l.sender == process || l.receiver == process) && (l.cut_at <= t || l.slow_at <= t)) return true;
    for (const SlowProxy& s : slow_proxies)
      if (s.process == process && s.at <= t) return true;
    return false;
  }
};

}  // namespace ccld::sim
