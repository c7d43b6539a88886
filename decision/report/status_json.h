// The service's view of jobs as JSON, row by row. README.md of this folder documents the schema.
// Threads: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decision/ingest/connection_counters.h"
#include "decision/ingest/ingest.h"
#include "decision/model/status.h"
#include "decision/report/access_status.h"
#include "decision/report/acknowledgement.h"
#include "decision/report/cluster_status.h"
#include "decision/report/history_counters.h"
#include "decision/report/http_counters.h"
#include "decision/report/memory_status.h"
#include "decision/report/recorder_counters.h"
#include "decision/report/silence.h"
#include "decision/report/verdict_json.h"
#include "decision/report/webhook_counters.h"

namespace ccld::decision::report {

// Everything the query API and the reports need, taken at one instant by the analysis thread and never changed.
struct Snapshot {
  Nanoseconds now_ns = 0;
  Nanoseconds started_ns = 0;
  WallClock clock;
  RuleSet rules = RuleSet::measured;
  Nanoseconds silent_ns = 0;               // a process without telemetry for so long is silent
  StatusView status;
  // Counters of processes that were known once (departed_metrics.h).
  std::map<abi::MetricId, int64_t> departed_metrics;
  std::vector<Incident> incidents;
  ingest::IngestCounters ingest;
  std::vector<ingest::DistinctError> ingest_errors;
  MemoryStatus memory;
  uint64_t ticks = 0, late_ticks = 0;
  Nanoseconds tick_duration_ns = 0;        // of the newest one
  uint64_t verdict_lines = 0, verdict_write_errors = 0;
  std::optional<RecorderCounters> recording;  // nothing: nothing is recorded
  HistoryCounters history;
  AccessStatus access;
  ingest::ConnectionCounters connections;
  HttpCounters http;
  std::optional<WebhookCounters> webhook;  // nothing: there is none
  std::optional<ClusterStatus> cluster;    // nothing: this is none
  Silences silences;                  // whose time is not over
  Acknowledgements acknowledgements;  // also of incidents that closed since
};

// Open, and a silence fits it.
bool is_silenced(const Incident&, const Snapshot&);

class StatusIndex;
struct JobRow;
enum class Trouble : uint8_t;

// The rows of the documents (status_pages.h), and what a summary says without lists of communicators and processes.
Json job_json(const JobRow&);
Json comm_json(const CommStatus&, Trouble state);
Json rank_json(const CommStatus&, size_t position, Nanoseconds silent_ns);  // in CommStatus::ranks
Json process_json(const ProcessStatus&, Nanoseconds silent_ns);
Json summary_json(const Snapshot&, const StatusIndex&);

Json cluster_json(const ClusterStatus&);

// What became of a request to tune probes: how many have answered, and which refused what.
Json tune_json(const Snapshot&, uint64_t sequence);

}  // namespace ccld::decision::report
