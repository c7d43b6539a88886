// The service's view of jobs as JSON: the answer of /v1/status. README.md of this folder documents the schema.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "decision/ingest/ingest.h"
#include "decision/model/status.h"
#include "decision/report/recorder_counters.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::report {

// Everything the query API and the reports need, taken at one instant by the analysis thread and never changed.
struct Snapshot {
  Nanoseconds now_ns = 0;
  Nanoseconds started_ns = 0;
  WallClock clock;
  RuleSet rules = RuleSet::measured;
  Nanoseconds silent_ns = 0;               // a process without telemetry for so long is silent
  StatusView status;
  std::vector<Incident> incidents;
  ingest::IngestCounters ingest;
  std::vector<ingest::DistinctError> ingest_errors;
  uint64_t ticks = 0, late_ticks = 0;
  Nanoseconds tick_duration_ns = 0;        // of the newest one
  uint64_t verdict_lines = 0, verdict_write_errors = 0;
  std::optional<RecorderCounters> recording;  // nothing: nothing is recorded
};

// `all_ranks`: every rank of every communicator and every process, else only what is silent.
Json status_json(const Snapshot&, bool all_ranks);
// What became of a request to tune probes: how many have answered, and which refused what.
Json tune_json(const Snapshot&, uint64_t sequence);
Json incidents_json(const Snapshot&);
std::optional<Json> incident_json(const Snapshot&, uint64_t id);

}  // namespace ccld::decision::report
