// Counters of processes that the service has forgotten, summed by id: a sum over all processes has to keep them, or it
// would fall when a process leaves, and Prometheus would take that for a counter that began anew.
#pragma once

#include <map>

#include "decision/report/status_json.h"

namespace ccld::decision::report {

// Those of `before`, and of its processes that `now` does not have. At most one for each id that this service knows.
std::map<abi::MetricId, int64_t> departed_metrics(const Snapshot& before, const StatusView& now);

}  // namespace ccld::decision::report
