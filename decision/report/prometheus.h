// A snapshot in the Prometheus text format: the answer of /metrics. Bounded: series of single processes (ccld_probe_...:
// what probes report about themselves, their process, host, GPUs and ports) end after probe_series_max, and the number of
// processes left out is a metric of its own; all others have no more labels than classes and states. Threads: any.
#pragma once

#include <string>

#include "decision/report/status_json.h"

namespace ccld::decision::report {

constexpr size_t probe_series_max = 50'000;

std::string prometheus_text(const Snapshot&);

}  // namespace ccld::decision::report
