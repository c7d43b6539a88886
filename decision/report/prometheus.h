// A snapshot in the Prometheus text format: the answer of /metrics. metrics.md lists all families.
//
// Bounded: processes, incidents and culprits that have series are the few with the most trouble (process_metrics.h,
// incident_metrics.h), everything else is a number of its own or a sum; what has no series is counted. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "decision/report/status_json.h"
#include "prometheus/metric_family.h"

namespace ccld::decision::report {

std::vector<prometheus::MetricFamily> metric_families(const Snapshot&);
std::string prometheus_text(const Snapshot&);

}  // namespace ccld::decision::report
