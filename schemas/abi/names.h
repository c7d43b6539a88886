// Names of the enums of frame.h, process.h and metrics.h, as people write them. Numbers that are not known are "?" (a
// newer writer).
#pragma once

#include "schemas/abi/frame.h"
#include "schemas/abi/metrics.h"
#include "schemas/abi/process.h"

namespace ccld::abi {

constexpr const char* name_of(Function value) {
  switch (value) {
    case Function::unknown: return "unknown";
    case Function::broadcast: return "Broadcast";
    case Function::reduce: return "Reduce";
    case Function::all_gather: return "AllGather";
    case Function::reduce_scatter: return "ReduceScatter";
    case Function::all_reduce: return "AllReduce";
    case Function::send: return "Send";
    case Function::recv: return "Recv";
    case Function::all_to_all: return "AlltoAll";
    case Function::gather: return "Gather";
    case Function::scatter: return "Scatter";
    case Function::all_gather_v: return "AllGatherV";
    case Function::other: return "other";
  }
  return "?";
}

constexpr const char* name_of(Datatype value) {
  switch (value) {
    case Datatype::int8: return "int8";
    case Datatype::uint8: return "uint8";
    case Datatype::int32: return "int32";
    case Datatype::uint32: return "uint32";
    case Datatype::int64: return "int64";
    case Datatype::uint64: return "uint64";
    case Datatype::float16: return "float16";
    case Datatype::float32: return "float32";
    case Datatype::float64: return "float64";
    case Datatype::bfloat16: return "bfloat16";
    case Datatype::float8_e4m3: return "float8e4m3";
    case Datatype::float8_e5m2: return "float8e5m2";
    case Datatype::unknown: return "unknown";
  }
  return "?";
}

constexpr const char* name_of(Reduction value) {
  switch (value) {
    case Reduction::sum: return "sum";
    case Reduction::prod: return "prod";
    case Reduction::max: return "max";
    case Reduction::min: return "min";
    case Reduction::avg: return "avg";
    case Reduction::user: return "user";
    case Reduction::none: return "none";
  }
  return "?";
}

constexpr const char* name_of(Algorithm value) {
  switch (value) {
    case Algorithm::tree: return "Tree";
    case Algorithm::ring: return "Ring";
    case Algorithm::collnet_direct: return "CollNetDirect";
    case Algorithm::collnet_chain: return "CollNetChain";
    case Algorithm::nvls: return "NVLS";
    case Algorithm::nvls_tree: return "NVLSTree";
    case Algorithm::pat: return "PAT";
    case Algorithm::symmetric: return "Symmetric";
    case Algorithm::copy_engine: return "CopyEngine";
    case Algorithm::unknown: return "unknown";
  }
  return "?";
}

constexpr const char* name_of(Protocol value) {
  switch (value) {
    case Protocol::ll: return "LL";
    case Protocol::ll128: return "LL128";
    case Protocol::simple: return "Simple";
    case Protocol::unknown: return "unknown";
  }
  return "?";
}

constexpr const char* name_of(Direction value) { return value == Direction::send ? "send" : "recv"; }

constexpr const char* name_of(WaitKind value) {
  switch (value) {
    case WaitKind::none: return "none";
    case WaitKind::data: return "data";
    case WaitKind::credit: return "credit";
  }
  return "?";
}

constexpr const char* name_of(CommState value) {
  switch (value) {
    case CommState::none: return "none";
    case CommState::initializing: return "initializing";
    case CommState::ready: return "ready";
    case CommState::finalized: return "finalized";
    case CommState::destroyed: return "destroyed";
    case CommState::aborted: return "aborted";
    case CommState::revoked: return "revoked";
    case CommState::init_failed: return "init failed";
  }
  return "?";
}

constexpr const char* name_of(InitStage value) {
  switch (value) {
    case InitStage::none: return "none";
    case InitStage::entered: return "entered";
    case InitStage::bootstrapped: return "bootstrapped";
    case InitStage::connected: return "connected";
    case InitStage::ready: return "ready";
    case InitStage::failed: return "failed";
  }
  return "?";
}

constexpr const char* name_of(ServiceState value) {
  switch (value) {
    case ServiceState::none: return "none";
    case ServiceState::connecting: return "connecting";
    case ServiceState::connected: return "connected";
    case ServiceState::reached: return "reached";
    case ServiceState::unusable: return "unusable";
    case ServiceState::unresolved: return "unresolved";
    case ServiceState::refused: return "refused";
    case ServiceState::unanswered: return "unanswered";
    case ServiceState::mute: return "mute";
    case ServiceState::deaf: return "deaf";
    case ServiceState::stalled: return "stalled";
    case ServiceState::rejected: return "rejected";
    case ServiceState::one_sided: return "one_sided";
    case ServiceState::other_key: return "other_key";
  }
  return "?";
}

constexpr const char* name_of(NetKind value) {
  switch (value) {
    case NetKind::infiniband: return "infiniband";
    case NetKind::socket: return "socket";
  }
  return "?";
}

constexpr const char* name_of(LogVerbosity value) {
  switch (value) {
    case LogVerbosity::warnings: return "warnings";
    case LogVerbosity::info: return "info";
    case LogVerbosity::trace: return "trace";
  }
  return "?";
}

// For lists of what is not measured; "?": a bit that is not known.
constexpr const char* name_of(Hidden value) {
  switch (value) {
    case hidden_device_api: return "device API";
    case hidden_gin: return "GIN";
    case hidden_pxn: return "PXN";
    case hidden_network: return "network plugin";
  }
  return "?";
}

// What it is that nobody sees.
constexpr const char* explanation_of(Hidden value) {
  switch (value) {
    case hidden_device_api: return "kernels of the program that use the device API";
    case hidden_gin: return "GPU-initiated networking (GIN)";
    case hidden_pxn: return "proxies of other ranks that send for a rank (PXN)";
    case hidden_network: return "queues of an external network plugin";
  }
  return "something newer than this reader";
}

// As in metrics.h: these are the names that people and dashboards see, so they change as little as the ids.
constexpr const char* name_of(MetricId value) {
  switch (value) {
    case MetricId::none: return "none";
    case MetricId::agent_samples: return "agent_samples";
    case MetricId::agent_late_samples: return "agent_late_samples";
    case MetricId::agent_lapped_rounds: return "agent_lapped_rounds";
    case MetricId::agent_dropped_rounds: return "agent_dropped_rounds";
    case MetricId::agent_dropped_batches: return "agent_dropped_batches";
    case MetricId::agent_send_errors: return "agent_send_errors";
    case MetricId::agent_sent_batches: return "agent_sent_batches";
    case MetricId::agent_sent_bytes: return "agent_sent_bytes";
    case MetricId::agent_cpu_ns: return "agent_cpu_ns";
    case MetricId::agent_period_us: return "agent_period_us";
    case MetricId::agent_budget_slowdowns: return "agent_budget_slowdowns";
    case MetricId::agent_wakeups: return "agent_wakeups";
    case MetricId::agent_unseen_operations: return "agent_unseen_operations";
    case MetricId::agent_reported_rounds: return "agent_reported_rounds";
    case MetricId::agent_proxies_dropped: return "agent_proxies_dropped";
    case MetricId::agent_p2p_lapped: return "agent_p2p_lapped";
    case MetricId::agent_comms_unwatched: return "agent_comms_unwatched";
    case MetricId::agent_control_applied: return "agent_control_applied";
    case MetricId::agent_control_refused: return "agent_control_refused";
    case MetricId::health_cpu_ns: return "health_cpu_ns";
    case MetricId::health_sources: return "health_sources";
    case MetricId::net_records_dropped: return "net_records_dropped";
    case MetricId::agent_forgotten_captures: return "agent_forgotten_captures";
    case MetricId::agent_waiting_batches: return "agent_waiting_batches";
    case MetricId::proxy_away_ns: return "proxy_away_ns";
    case MetricId::agent_summed_kernels: return "agent_summed_kernels";
    case MetricId::agent_summed_busy_ns: return "agent_summed_busy_ns";
    case MetricId::agent_summed_send_steps: return "agent_summed_send_steps";
    case MetricId::agent_summed_recv_steps: return "agent_summed_recv_steps";
    case MetricId::agent_acknowledged_batches: return "agent_acknowledged_batches";
    case MetricId::agent_undelivered_batches: return "agent_undelivered_batches";
    case MetricId::agent_unconfirmed_batches: return "agent_unconfirmed_batches";
    case MetricId::agent_service_state: return "agent_service_state";
    case MetricId::agent_service_monotonic_ns: return "agent_service_monotonic_ns";
    case MetricId::agent_service_keys: return "agent_service_keys";
    case MetricId::process_threads_running: return "process_threads_running";
    case MetricId::process_threads_sleeping: return "process_threads_sleeping";
    case MetricId::process_threads_disk_wait: return "process_threads_disk_wait";
    case MetricId::process_threads_stopped: return "process_threads_stopped";
    case MetricId::process_threads_zombie: return "process_threads_zombie";
    case MetricId::process_main_thread_state: return "process_main_thread_state";
    case MetricId::process_resident_bytes: return "process_resident_bytes";
    case MetricId::process_major_faults: return "process_major_faults";
    case MetricId::process_involuntary_switches: return "process_involuntary_switches";
    case MetricId::process_user_ns: return "process_user_ns";
    case MetricId::process_system_ns: return "process_system_ns";
    case MetricId::process_run_delay_ns: return "process_run_delay_ns";
    case MetricId::process_main_run_delay_ns: return "process_main_run_delay_ns";
    case MetricId::process_proxy_run_delay_ns: return "process_proxy_run_delay_ns";
    case MetricId::process_proxy_threads: return "process_proxy_threads";
    case MetricId::process_starved_ns: return "process_starved_ns";
    case MetricId::process_main_run_ns: return "process_main_run_ns";
    case MetricId::process_proxy_run_ns: return "process_proxy_run_ns";
    case MetricId::process_run_read_monotonic_ns: return "process_run_read_monotonic_ns";
    case MetricId::process_turns: return "process_turns";
    case MetricId::process_turn_waits_ns: return "process_turn_waits_ns";
    case MetricId::process_gpu_starved_ns: return "process_gpu_starved_ns";
    case MetricId::cgroup_throttled_periods: return "cgroup_throttled_periods";
    case MetricId::cgroup_throttled_us: return "cgroup_throttled_us";
    case MetricId::cgroup_memory_bytes: return "cgroup_memory_bytes";
    case MetricId::cgroup_memory_limit_bytes: return "cgroup_memory_limit_bytes";
    case MetricId::cgroup_oom_kills: return "cgroup_oom_kills";
    case MetricId::cgroup_memory_high_events: return "cgroup_memory_high_events";
    case MetricId::pressure_cpu_some_us: return "pressure_cpu_some_us";
    case MetricId::pressure_memory_some_us: return "pressure_memory_some_us";
    case MetricId::pressure_memory_full_us: return "pressure_memory_full_us";
    case MetricId::pressure_io_full_us: return "pressure_io_full_us";
    case MetricId::host_load_per_mille: return "host_load_per_mille";
    case MetricId::host_memory_available_bytes: return "host_memory_available_bytes";
    case MetricId::host_runnable_tasks: return "host_runnable_tasks";
    case MetricId::host_processors: return "host_processors";
    case MetricId::gpu_sm_clock_mhz: return "gpu_sm_clock_mhz";
    case MetricId::gpu_sm_clock_max_mhz: return "gpu_sm_clock_max_mhz";
    case MetricId::gpu_memory_clock_mhz: return "gpu_memory_clock_mhz";
    case MetricId::gpu_throttle_reasons: return "gpu_throttle_reasons";
    case MetricId::gpu_temperature_c: return "gpu_temperature_c";
    case MetricId::gpu_power_mw: return "gpu_power_mw";
    case MetricId::gpu_utilization_percent: return "gpu_utilization_percent";
    case MetricId::gpu_xid_last: return "gpu_xid_last";
    case MetricId::gpu_xid_count: return "gpu_xid_count";
    case MetricId::gpu_ecc_uncorrected: return "gpu_ecc_uncorrected";
    case MetricId::gpu_pcie_replays: return "gpu_pcie_replays";
    case MetricId::port_state: return "port_state";
    case MetricId::port_rate_mbps: return "port_rate_mbps";
    case MetricId::port_sent_bytes: return "port_sent_bytes";
    case MetricId::port_received_bytes: return "port_received_bytes";
    case MetricId::port_send_errors: return "port_send_errors";
    case MetricId::port_receive_errors: return "port_receive_errors";
    case MetricId::port_link_downed: return "port_link_downed";
    case MetricId::port_symbol_errors: return "port_symbol_errors";
    case MetricId::port_congestion_waits: return "port_congestion_waits";
    case MetricId::port_out_of_sequence: return "port_out_of_sequence";
    case MetricId::port_retransmit_timeouts: return "port_retransmit_timeouts";
    case MetricId::port_congestion_notifications: return "port_congestion_notifications";
  }
  return "?";
}

}  // namespace ccld::abi
