// Stable ids of everything that is counted or gauged outside of communicators: the probe about itself, the process, its
// host, GPUs and network devices. Ids are never reused; new ones are appended to their range.
//
// A metric is (id, instance, value): the instance names the GPU ("0000:10:00.0"), port ("mlx5_0:1"), interface ("eth0") or
// is empty. Values are integers in the unit that the name ends with; a source that does not exist gives no value at all.
#pragma once

#include <cstdint>

namespace ccld::abi {

enum class MetricId : uint16_t {
  none = 0,

  // ---- the probe about itself (counters of this process; also words of the process file)
  agent_samples = 1,            // passes over all communicators
  agent_late_samples = 2,       // passes that began more than one period after they were due
  agent_lapped_rounds = 3,      // rounds whose record or times were overwritten before they were read
  agent_dropped_rounds = 4,     // finished rounds in excess of what one flush carries
  agent_dropped_batches = 5,    // the queue to the service was full, or the service never came for what was in it
  agent_send_errors = 6,        // refused by the transport for another reason
  agent_sent_batches = 7,       // handed to a connection with the service; whether they came: 31 to 33
  agent_sent_bytes = 8,
  agent_cpu_ns = 9,             // processor time of the diagnostic thread
  agent_period_us = 10,         // gauge: time between two samples in flight, after the budget
  agent_budget_slowdowns = 11,  // times the budget made the period longer
  agent_wakeups = 12,           // times the training path had to wake the resting thread
  agent_unseen_operations = 13, // calls that were made while the probe was stopped
  agent_reported_rounds = 14,
  agent_proxies_dropped = 15,   // connections without a ProxyRecord
  agent_p2p_lapped = 16,        // Send and Recv calls whose record was overwritten before it was read
  agent_comms_unwatched = 17,   // communicators that got no frame
  agent_control_applied = 18,
  agent_control_refused = 19,
  health_cpu_ns = 20,           // processor time of the health thread
  health_sources = 21,          // gauge: sources that can be read
  net_records_dropped = 22,     // queues without a NetRecord
  agent_forgotten_captures = 24, // graphs whose replays are not followed any more, because there are too many
  agent_waiting_batches = 25,   // gauge: in the queue, for a service that is not there
  // Time in which a progress thread did not look at an operation that it had begun, summed over the threads (gaps of
  // proxy_away_min_ns and more at whose end there was something to do; one that is away from all its connections is so
  // once). Told even if 0.
  proxy_away_ns = 26,
  // Kernels of which less is known than their own times and counts, because their rows were overwritten before they were
  // read (sums of each communicator's busiest channel), and what all of them did.
  agent_summed_kernels = 27,
  agent_summed_busy_ns = 28,    // from begin to end
  agent_summed_send_steps = 29,
  agent_summed_recv_steps = 30,
  // What became of the numbered batches: each is acknowledged, undelivered, waiting or unconfirmed.
  agent_acknowledged_batches = 31,  // the service has said that they came
  agent_undelivered_batches = 32,   // dropped, refused, given up, or lost with a connection: they never come
  agent_unconfirmed_batches = 33,   // gauge: sent, and the service has not said (yet) that they came
  agent_service_state = 34,         // gauge: ServiceState (process.h); only in the process file
  agent_service_monotonic_ns = 35,  // when that state began; only in the process file
  agent_service_keys = 36,          // gauge: 1: both ends prove their keys (CURVE); only in the process file

  // ---- the process
  process_threads_running = 130,       // gauges: threads by state of /proc/<pid>/task/*/stat
  process_threads_sleeping = 131,
  process_threads_disk_wait = 132,     // uninterruptible
  process_threads_stopped = 133,       // by a signal or a tracer
  process_threads_zombie = 134,
  process_main_thread_state = 135,     // gauge: the letter
  process_resident_bytes = 136,
  process_major_faults = 137,
  process_involuntary_switches = 138,
  process_user_ns = 139,
  process_system_ns = 140,
  // Time in which threads were ready to run and waited for a processor (run-queue delay of /proc/<pid>/task/*/schedstat).
  process_run_delay_ns = 141,          // of all its threads; a thread that ends keeps its part
  process_main_run_delay_ns = 142,     // of its main thread
  process_proxy_run_delay_ns = 143,    // of NCCL's progress threads, the mean of them
  process_proxy_threads = 144,         // gauge: of how many
  // Time in which a thread that moves steps was ready and hardly ran.
  process_starved_ns = 145,            // one of NCCL's progress threads
  // Time in which they ran (the first number of schedstat): with their run-queue delay, how long they wanted a processor.
  process_main_run_ns = 146,
  process_proxy_run_ns = 147,          // the mean of them
  process_run_read_monotonic_ns = 148, // when these were read
  // Of all these threads together (the main thread, progress threads; with the CPU device, its GPU's): how often they got
  // a processor, and how long they waited for it. A thread counts from when it is first seen.
  process_turns = 149,
  process_turn_waits_ns = 150,
  process_gpu_starved_ns = 151,        // as process_starved_ns, one that stands for a GPU (CPU device)

  // ---- its control group and host
  cgroup_throttled_periods = 160,
  cgroup_throttled_us = 161,
  cgroup_memory_bytes = 162,
  cgroup_memory_limit_bytes = 163,
  cgroup_oom_kills = 164,
  cgroup_memory_high_events = 165,
  pressure_cpu_some_us = 170,          // total stall time, PSI
  pressure_memory_some_us = 171,
  pressure_memory_full_us = 172,
  pressure_io_full_us = 173,
  host_load_per_mille = 174,           // one-minute load per processor
  host_memory_available_bytes = 175,
  host_runnable_tasks = 176,           // gauge: running, or waiting for a processor
  host_processors = 177,               // gauge: online

  // ---- GPU, instance: PCI bus id
  gpu_sm_clock_mhz = 200,
  gpu_sm_clock_max_mhz = 201,
  gpu_memory_clock_mhz = 202,
  gpu_throttle_reasons = 203,          // NVML's bit mask
  gpu_temperature_c = 204,
  gpu_power_mw = 205,
  gpu_utilization_percent = 206,
  gpu_xid_last = 207,
  gpu_xid_count = 208,
  gpu_ecc_uncorrected = 209,
  gpu_pcie_replays = 210,

  // ---- network port, instance: "device:port" or the interface
  port_state = 230,                    // InfiniBand's port state (4: active); interfaces: 4 up, 1 down
  port_rate_mbps = 231,
  port_sent_bytes = 232,
  port_received_bytes = 233,
  port_send_errors = 234,
  port_receive_errors = 235,
  port_link_downed = 236,
  port_symbol_errors = 237,
  port_congestion_waits = 238,         // port_xmit_wait
  port_out_of_sequence = 239,          // RoCE hardware counters
  port_retransmit_timeouts = 240,
  port_congestion_notifications = 241,
};

}  // namespace ccld::abi
