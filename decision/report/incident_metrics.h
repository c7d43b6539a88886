// Open incidents and their culprits as series. Bounded: incidents_shown_max incidents, confirmed ones first, then by
// number, with culprits_shown_max culprits each; how many are left out is a metric. An incident that is
// closed has no series: alerts on it end. Threads: any.
#pragma once

#include "decision/report/metric_families.h"
#include "decision/report/status_json.h"

namespace ccld::decision::report {

// There is one incident for each cause: more at a time are for the verdict file.
constexpr size_t incidents_shown_max = 20;
// Both ends of the links of a machine with eight network devices.
constexpr size_t culprits_shown_max = 16;

void add_incident_metrics(const Snapshot&, MetricFamilies&);

}  // namespace ccld::decision::report
