// Metrics of single processes, bounded: the processes_shown_max processes with the most trouble have series of their
// own (ccld_probe_...); what makes sense summed is summed over all processes (ccld_probes_...); ccld_processes and
// ccld_probe_values say how much is shown and how much is not. Threads: any.
#pragma once

#include <vector>

#include "decision/report/metric_families.h"
#include "decision/report/status_json.h"

namespace ccld::decision::report {

// Two machines of eight GPUs and some more: one screen of a dashboard.
constexpr size_t processes_shown_max = 20;
// A process on a machine with eight ports has 150.
constexpr size_t process_values_max = 192;

// Culprits of open incidents first, then silent ones, then by what was lost: batches that did not arrive and what the
// probe could not measure or send. Equal ones by host and pid, so that the list of a healthy job does not change, for
// each change makes new series. Of processes with equal job, host and pid (containers that are alike) one is enough.
std::vector<const ProcessStatus*> most_troubled(const Snapshot&);

void add_process_metrics(const Snapshot&, MetricFamilies&);

}  // namespace ccld::decision::report
