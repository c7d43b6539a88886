#include "decision/report/probe_metrics.h"

#include <algorithm>
#include <iterator>

namespace ccld::decision::report {
namespace {

using Id = abi::MetricId;

constexpr double one = 1, ns = 1e-9, us = 1e-6, per_mille = 1e-3, percent = 1e-2, milli = 1e-3, mega = 1e6;
constexpr double bytes_per_mbit = 125'000;

// clang-format off
constexpr ProbeMetric metrics[] = {
    {Id::agent_samples, "samples", one, "Passes over all communicators."},
    {Id::agent_late_samples, "late_samples", one, "Passes that began more than one period after they were due."},
    {Id::agent_lapped_rounds, "lapped_rounds", one, "Rounds that were overwritten before they were read."},
    {Id::agent_dropped_rounds, "dropped_rounds", one, "Finished rounds in excess of what one batch carries."},
    {Id::agent_dropped_batches, "dropped_batches", one, "Batches for which the queue to the service had no room."},
    {Id::agent_send_errors, "send_errors", one, "Batches that the transport refused."},
    {Id::agent_sent_batches, "sent_batches", one, "Batches handed to a connection with the service."},
    {Id::agent_sent_bytes, "sent_bytes", one, "Bytes of them."},
    {Id::agent_cpu_ns, "cpu_seconds", ns, "Processor time of the diagnostic thread."},
    {Id::agent_period_us, "sample_period_seconds", us, "Time between two samples in flight, after the budget."},
    {Id::agent_budget_slowdowns, "budget_slowdowns", one, "Times the budget made the period longer."},
    {Id::agent_wakeups, "wakeups", one, "Times the training path had to wake the resting thread."},
    {Id::agent_unseen_operations, "unseen_operations", one, "Calls made while the probe was stopped."},
    {Id::agent_reported_rounds, "reported_rounds", one, "Rounds reported."},
    {Id::agent_proxies_dropped, "dropped_proxies", one, "Connections that the frame had no room for."},
    {Id::agent_p2p_lapped, "lapped_p2p_calls", one, "Send and Recv calls that were overwritten before they were read."},
    {Id::agent_comms_unwatched, "unwatched_communicators", one, "Communicators that got no frame."},
    {Id::agent_control_applied, "tuning_applied", one, "Requests to tune the probe that it has followed."},
    {Id::agent_control_refused, "tuning_refused", one, "Requests to tune the probe that it has refused."},
    {Id::health_cpu_ns, "health_cpu_seconds", ns, "Processor time of the health thread."},
    {Id::health_sources, "health_sources", one, "Sources of health values that can be read."},
    {Id::net_records_dropped, "dropped_net_queues", one, "Network queues that the process file had no room for."},
    {Id::agent_forgotten_captures, "forgotten_graphs", one, "Graphs whose replays are not followed any more, because there are too many."},
    {Id::agent_waiting_batches, "waiting_batches", one, "Batches that wait for a service which is not there."},
    {Id::proxy_away_ns, "proxy_away_seconds", ns, "Time in which progress threads did not look at an operation that they had begun, and something was to do."},
    {Id::agent_summed_kernels, "summed_kernels", one, "Kernels of which only sums are known."},
    {Id::agent_summed_busy_ns, "summed_kernels_busy_seconds", ns, "Their time from begin to end."},
    {Id::agent_summed_send_steps, "summed_kernels_send_steps", one, "Steps that they sent."},
    {Id::agent_summed_recv_steps, "summed_kernels_recv_steps", one, "Steps that they received."},
    {Id::agent_acknowledged_batches, "acknowledged_batches", one, "Batches of which the service has said that they came."},
    {Id::agent_undelivered_batches, "undelivered_batches", one, "Batches that never come: no room, given up, or lost with a connection."},
    {Id::agent_unconfirmed_batches, "unconfirmed_batches", one, "Batches sent of which the service has not said (yet) that they came."},

    {Id::process_threads_running, "process_threads_running", one, "Threads of the process that run."},
    {Id::process_threads_sleeping, "process_threads_sleeping", one, "Threads of the process that sleep."},
    {Id::process_threads_disk_wait, "process_threads_disk_wait", one, "Threads of the process in uninterruptible waits."},
    {Id::process_threads_stopped, "process_threads_stopped", one, "Threads of the process stopped by a signal or a tracer."},
    {Id::process_threads_zombie, "process_threads_zombie", one, "Threads of the process that have ended."},
    {Id::process_main_thread_state, "process_main_thread_state", one, "Letter of the main thread's state in /proc, as its ASCII number."},
    {Id::process_resident_bytes, "process_resident_bytes", one, "Resident memory of the process."},
    {Id::process_major_faults, "process_major_faults", one, "Major page faults."},
    {Id::process_involuntary_switches, "process_involuntary_switches", one, "Involuntary context switches."},
    {Id::process_user_ns, "process_user_cpu_seconds", ns, "Processor time in user mode."},
    {Id::process_system_ns, "process_system_cpu_seconds", ns, "Processor time in the kernel."},
    {Id::process_run_delay_ns, "process_run_delay_seconds", ns, "Time in which threads waited for a processor, of all threads."},
    {Id::process_main_run_delay_ns, "process_main_run_delay_seconds", ns, "The same, of the main thread."},
    {Id::process_proxy_run_delay_ns, "process_proxy_run_delay_seconds", ns, "The same, mean of NCCL's progress threads."},
    {Id::process_proxy_threads, "process_proxy_threads", one, "NCCL's progress threads."},
    {Id::process_starved_ns, "process_starved_seconds", ns, "Time in which one of NCCL's progress threads was ready and hardly ran."},
    {Id::process_main_run_ns, "process_main_run_seconds", ns, "Time in which the main thread ran."},
    {Id::process_proxy_run_ns, "process_proxy_run_seconds", ns, "Time in which progress threads ran, mean of them."},
    {Id::process_turns, "process_turns", one, "Times that the main thread and progress threads got a processor."},
    {Id::process_turn_waits_ns, "process_turn_waits_seconds", ns, "Time they waited for it."},
    {Id::process_gpu_starved_ns, "process_gpu_starved_seconds", ns, "Time in which a thread that stands for a GPU (CPU device) was ready and hardly ran."},

    {Id::cgroup_throttled_periods, "cgroup_throttled_periods", one, "Periods in which the control group was throttled."},
    {Id::cgroup_throttled_us, "cgroup_throttled_seconds", us, "Time in which the control group was throttled."},
    {Id::cgroup_memory_bytes, "cgroup_memory_bytes", one, "Memory of the control group."},
    {Id::cgroup_memory_limit_bytes, "cgroup_memory_limit_bytes", one, "Limit of it."},
    {Id::cgroup_oom_kills, "cgroup_oom_kills", one, "Processes of the control group killed for lack of memory."},
    {Id::cgroup_memory_high_events, "cgroup_memory_high_events", one, "Times the control group went over its soft limit of memory."},
    {Id::pressure_cpu_some_us, "pressure_cpu_some_seconds", us, "Time in which a task of the host waited for a processor (PSI)."},
    {Id::pressure_memory_some_us, "pressure_memory_some_seconds", us, "Time in which a task of the host waited for memory (PSI)."},
    {Id::pressure_memory_full_us, "pressure_memory_full_seconds", us, "Time in which all tasks of the host waited for memory (PSI)."},
    {Id::pressure_io_full_us, "pressure_io_full_seconds", us, "Time in which all tasks of the host waited for storage (PSI)."},
    {Id::host_load_per_mille, "host_load_ratio", per_mille, "One-minute load per processor."},
    {Id::host_memory_available_bytes, "host_memory_available_bytes", one, "Available memory of the host."},
    {Id::host_runnable_tasks, "host_runnable_tasks", one, "Tasks of the host that run or wait for a processor."},
    {Id::host_processors, "host_processors", one, "Processors online."},

    {Id::gpu_sm_clock_mhz, "gpu_sm_clock_hertz", mega, "Clock of the GPU's multiprocessors."},
    {Id::gpu_sm_clock_max_mhz, "gpu_sm_clock_max_hertz", mega, "The highest that it can have."},
    {Id::gpu_memory_clock_mhz, "gpu_memory_clock_hertz", mega, "Clock of the GPU's memory."},
    {Id::gpu_throttle_reasons, "gpu_throttle_reasons", one, "NVML's bit mask of why clocks are lower than they could be."},
    {Id::gpu_temperature_c, "gpu_temperature_celsius", one, "Temperature of the GPU."},
    {Id::gpu_power_mw, "gpu_power_watts", milli, "Power that the GPU takes."},
    {Id::gpu_utilization_percent, "gpu_utilization_ratio", percent, "Part of the time in which a kernel ran."},
    {Id::gpu_xid_last, "gpu_last_xid", one, "Number of the GPU's last XID; 0: none."},
    {Id::gpu_xid_count, "gpu_xids", one, "XIDs of the GPU."},
    {Id::gpu_ecc_uncorrected, "gpu_uncorrected_memory_errors", one, "Uncorrected memory errors of the GPU."},
    {Id::gpu_pcie_replays, "gpu_pcie_replays", one, "PCIe replays of the GPU."},

    {Id::port_state, "port_state", one, "State of the network port, as InfiniBand numbers it; 4: active."},
    {Id::port_rate_mbps, "port_rate_bytes_per_second", bytes_per_mbit, "Rate of the network port."},
    {Id::port_sent_bytes, "port_sent_bytes", one, "Bytes sent by the network port."},
    {Id::port_received_bytes, "port_received_bytes", one, "Bytes received by it."},
    {Id::port_send_errors, "port_send_errors", one, "Errors in sending."},
    {Id::port_receive_errors, "port_receive_errors", one, "Errors in receiving."},
    {Id::port_link_downed, "port_link_downs", one, "Times its link went down."},
    {Id::port_symbol_errors, "port_symbol_errors", one, "Symbol errors of its link."},
    {Id::port_congestion_waits, "port_congestion_waits", one, "Ticks in which it had data and no credit (port_xmit_wait)."},
    {Id::port_out_of_sequence, "port_out_of_sequence_packets", one, "Packets received out of sequence."},
    {Id::port_retransmit_timeouts, "port_retransmit_timeouts", one, "Retransmissions after a timeout."},
    {Id::port_congestion_notifications, "port_congestion_notifications", one, "Congestion notifications."},
};
// clang-format on

static_assert(std::is_sorted(std::begin(metrics), std::end(metrics),
                             [](const ProbeMetric& a, const ProbeMetric& b) { return a.id < b.id; }));

}  // namespace

std::span<const ProbeMetric> probe_metrics() { return metrics; }

const ProbeMetric* probe_metric(abi::MetricId id) {
  const auto it = std::lower_bound(std::begin(metrics), std::end(metrics), id,
                                   [](const ProbeMetric& m, Id wanted) { return m.id < wanted; });
  return it != std::end(metrics) && it->id == id ? it : nullptr;
}

bool is_summed(abi::MetricId id) {
  switch (id) {
    case Id::agent_period_us:
    case Id::process_main_thread_state:
    // Means over threads.
    case Id::process_proxy_run_delay_ns:
    case Id::process_proxy_run_ns: return false;
    default: return is_of_process(id) && probe_metric(id) != nullptr;
  }
}

bool is_loss(abi::MetricId id) {
  switch (id) {
    case Id::agent_lapped_rounds:
    case Id::agent_dropped_rounds:
    case Id::agent_dropped_batches:
    case Id::agent_send_errors:
    case Id::agent_proxies_dropped:
    case Id::agent_p2p_lapped:
    case Id::agent_comms_unwatched:
    case Id::net_records_dropped: return true;
    default: return false;
  }
}

MetricKind kind_of(abi::MetricId id) {
  return type_of(id) == MetricType::counter ? MetricKind::counter : MetricKind::gauge;
}

}  // namespace ccld::decision::report
