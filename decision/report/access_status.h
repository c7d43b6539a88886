// Who may send and ask, for the status and the metrics. Threads: any; plain data.
#pragma once

#include <vector>

#include "decision/ingest/distinct_errors.h"
#include "decision/ingest/door_counters.h"

namespace ccld::decision::report {

struct AccessStatus {
  bool telemetry_keys = false;  // probes prove their keys, and telemetry is encrypted; else anybody may send
  bool http_tokens = false;     // questions need a token; else anybody may ask
  bool http_tls = false;
  ingest::DoorCounters door;
  std::vector<ingest::DistinctError> door_errors;
};

}  // namespace ccld::decision::report
