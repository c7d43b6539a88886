// A snapshot from which every family of metrics is made, for tests of what is exported.
#pragma once

#include <memory>
#include <string>

#include "decision/report/probe_metrics.h"
#include "decision/report/status_json.h"

namespace ccld::test {

inline decision::ProcessStatus process_with(std::vector<decision::Metric> metrics, const std::string& host = "node-a",
                                            uint32_t pid = 4711) {
  decision::ProcessStatus p;
  p.process = {host, "boot", pid, 0, 1};
  p.job = "demo";
  p.batches = 100;
  p.metrics = std::make_shared<const decision::MetricTable>(decision::merged(nullptr, {std::move(metrics)}, 1));
  return p;
}

inline decision::Culprit culprit(int32_t rank, const std::string& host = "node-a", uint32_t pid = 4711) {
  decision::Culprit c;
  c.rank = decision::Rank(rank);
  c.job_rank = decision::Rank(rank + 8);
  c.host = host;
  c.pid = pid;
  c.cuda_device = 1;
  c.gpu_bus_id = "0000:10:00.0";
  c.component = decision::Component::link;
  c.condition = decision::Condition::link_slow;
  c.channel = 2;
  c.peer = decision::Rank(rank + 1);
  c.peer_host = "node-b";
  c.net_name = "mlx5_0";
  return c;
}

inline decision::Incident incident(uint64_t id, decision::FaultClass fault, decision::VerdictState state) {
  decision::Incident i;
  i.id = id;
  i.fault = fault;
  i.state = state;
  i.job = "demo";
  i.comm = decision::CommUid(0xabc);
  i.comm_name = "tp0";
  i.confidence = 0.75;
  i.victim_count = 7;
  i.onset_ns = 90 * decision::ns_per_s;
  return i;
}

inline decision::report::Snapshot full_snapshot() {
  using namespace decision;
  report::Snapshot s;
  s.now_ns = 100 * ns_per_s;
  s.started_ns = 40 * ns_per_s;
  s.silent_ns = 5 * ns_per_s;
  s.clock.realtime_minus_clock_ns = 1'000'000 * ns_per_s;
  s.ingest.batches = 1234;
  s.ingest.lost_batches = 2;
  s.ingest.rejected[static_cast<size_t>(ingest::RejectReason::structure)] = 3;
  CommStatus comm;
  comm.ranks_seen = 2;
  comm.in_flight = true;
  comm.oldest_age_ns = 12 * ns_per_s;
  s.status.communicators = {comm};
  std::vector<Metric> metrics;
  for (const report::ProbeMetric& m : report::probe_metrics())
    metrics.push_back({m.id, report::is_of_process(m.id) ? "" : "device-0", 1000});
  s.status.processes = {process_with(metrics), process_with({}, "node-b")};
  s.status.processes[1].telemetry_age_ns = 9 * ns_per_s;
  s.incidents = {incident(1, FaultClass::h1_not_entered, VerdictState::resolved),
                 incident(2, FaultClass::s2_communication_slow, VerdictState::confirmed),
                 incident(3, FaultClass::h1_not_entered, VerdictState::suspected)};
  s.incidents[1].culprits = {culprit(3)};
  s.incidents[1].gain = {1000, 800, true};
  s.recording.emplace();
  s.webhook.emplace();
  s.cluster.emplace();
  return s;
}

}  // namespace ccld::test
