// The watcher, watched: what the diagnostic thread counts about itself. Sent with every heartbeat (AgentHealth and
// Metrics of the wire) and shown in the process file.
//
// Threads: written by the diagnostic thread (or by comm_end, under the agent's lock).
#pragma once

#include <cstdint>

#include "schemas/abi/metrics.h"

namespace ccld::probe {

struct Health {
  uint64_t samples = 0;          // passes over all communicators
  uint64_t late_samples = 0;     // passes that began more than one period after they were due
  uint64_t lapped_rounds = 0;    // rounds whose record or device times were overwritten before they were read
  uint64_t dropped_batches = 0;  // the queue to the service was full, or the service never came for what was in it
  uint64_t dropped_rounds = 0;   // finished rounds in excess of what one flush carries
  uint64_t send_errors = 0;      // the transport refused a batch for another reason than a full queue
  uint64_t sent_batches = 0;     // handed to a connection
  uint64_t waiting_batches = 0;  // now, for a connection
  uint64_t sent_bytes = 0;
  uint64_t acknowledged_batches = 0;  // these three and waiting_batches: all that were numbered (agent/delivery.h)
  uint64_t undelivered_batches = 0;
  uint64_t unconfirmed_batches = 0;
  uint64_t cpu_ns = 0;  // of the diagnostic thread
  uint64_t period_us = 0;
  uint64_t budget_slowdowns = 0;
  uint64_t wakeups = 0;
  uint64_t unseen_operations = 0;
  uint64_t reported_rounds = 0;
  uint64_t proxies_dropped = 0;
  uint64_t p2p_lapped = 0;
  uint64_t forgotten_captures = 0;
  uint64_t control_applied = 0;
  uint64_t control_refused = 0;
  uint64_t summed_kernels = 0;  // of which only sums are known; these:
  uint64_t summed_busy_ns = 0, summed_send_steps = 0, summed_recv_steps = 0;
};

struct HealthMetric {
  abi::MetricId id;
  uint64_t Health::*value;
};

// The ids under which they are known outside.
constexpr HealthMetric health_metrics[] = {
    {abi::MetricId::agent_samples, &Health::samples},
    {abi::MetricId::agent_late_samples, &Health::late_samples},
    {abi::MetricId::agent_lapped_rounds, &Health::lapped_rounds},
    {abi::MetricId::agent_dropped_rounds, &Health::dropped_rounds},
    {abi::MetricId::agent_dropped_batches, &Health::dropped_batches},
    {abi::MetricId::agent_send_errors, &Health::send_errors},
    {abi::MetricId::agent_sent_batches, &Health::sent_batches},
    {abi::MetricId::agent_sent_bytes, &Health::sent_bytes},
    {abi::MetricId::agent_cpu_ns, &Health::cpu_ns},
    {abi::MetricId::agent_period_us, &Health::period_us},
    {abi::MetricId::agent_budget_slowdowns, &Health::budget_slowdowns},
    {abi::MetricId::agent_wakeups, &Health::wakeups},
    {abi::MetricId::agent_unseen_operations, &Health::unseen_operations},
    {abi::MetricId::agent_reported_rounds, &Health::reported_rounds},
    {abi::MetricId::agent_proxies_dropped, &Health::proxies_dropped},
    {abi::MetricId::agent_p2p_lapped, &Health::p2p_lapped},
    {abi::MetricId::agent_forgotten_captures, &Health::forgotten_captures},
    {abi::MetricId::agent_waiting_batches, &Health::waiting_batches},
    {abi::MetricId::agent_control_applied, &Health::control_applied},
    {abi::MetricId::agent_control_refused, &Health::control_refused},
    {abi::MetricId::agent_summed_kernels, &Health::summed_kernels},
    {abi::MetricId::agent_summed_busy_ns, &Health::summed_busy_ns},
    {abi::MetricId::agent_summed_send_steps, &Health::summed_send_steps},
    {abi::MetricId::agent_summed_recv_steps, &Health::summed_recv_steps},
    {abi::MetricId::agent_acknowledged_batches, &Health::acknowledged_batches},
    {abi::MetricId::agent_undelivered_batches, &Health::undelivered_batches},
    {abi::MetricId::agent_unconfirmed_batches, &Health::unconfirmed_batches},
};

}  // namespace ccld::probe
