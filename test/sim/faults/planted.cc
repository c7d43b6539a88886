#include "test/sim/faults/planted.h"

namespace ccld::sim {

const char* name(FaultKind k) {
  switch (k) {
    case FaultKind::none: return "none";
    case FaultKind::never_calls: return "never-calls";
    case FaultKind::stopped: return "stopped";
    case FaultKind::killed: return "killed";
    case FaultKind::called_not_launched: return "called-not-launched";
    case FaultKind::kernel_never_starts: return "kernel-never-starts";
    case FaultKind::silent_process: return "silent-process";
    case FaultKind::host_down: return "host-down";
    case FaultKind::other_operation: return "other-operation";
    case FaultKind::other_count: return "other-count";
    case FaultKind::other_type: return "other-type";
    case FaultKind::other_reduction: return "other-reduction";
    case FaultKind::other_root: return "other-root";
    case FaultKind::skipped: return "skipped";
    case FaultKind::additional: return "additional";
    case FaultKind::other_order: return "other-order";
    case FaultKind::frozen_channel: return "frozen-channel";
    case FaultKind::frozen_group: return "frozen-group";
    case FaultKind::dead_gpu: return "dead-gpu";
    case FaultKind::stuck_proxy: return "stuck-proxy";
    case FaultKind::cut_link: return "cut-link";
    case FaultKind::dead_nic: return "dead-nic";
    case FaultKind::late_host: return "late-host";
    case FaultKind::slow_clock: return "slow-clock";
    case FaultKind::pauses: return "pauses";
    case FaultKind::throttled_link: return "throttled-link";
    case FaultKind::delaying_proxy: return "delaying-proxy";
    case FaultKind::late_and_throttled: return "late-and-throttled";
    case FaultKind::slow_clock_and_delaying: return "slow-clock-and-delaying";
    case FaultKind::other_bytes: return "other-bytes";
    case FaultKind::seldom_proxy: return "seldom-proxy";
    case FaultKind::count: break;
  }
  return "?";
}

}  // namespace ccld::sim
