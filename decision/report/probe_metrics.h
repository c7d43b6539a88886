// What probes report about themselves, their process, host, GPUs and ports (schemas/abi/metrics.h), as Prometheus names
// it: the one list of these names, with their meaning and base units.
#pragma once

#include <span>

#include "decision/model/metric_table.h"
#include "decision/report/metric_families.h"

namespace ccld::decision::report {

struct ProbeMetric {
  abi::MetricId id;
  const char* name;  // without "ccld_probe_", and without "_total"
  double scale;      // from the unit of the id to the base unit
  const char* help;
};

// In order of id.
std::span<const ProbeMetric> probe_metrics();
// nullptr: an id that is not exported, or of a newer probe.
const ProbeMetric* probe_metric(abi::MetricId);

// About the process or its probe, not about its host, GPUs and ports; all ids of these are larger.
constexpr bool is_of_process(abi::MetricId id) { return id < abi::MetricId::cgroup_throttled_periods; }
// A number of one process that makes sense summed over processes. Values of hosts, GPUs and ports do not: every process
// of a machine reports the same ones.
bool is_summed(abi::MetricId);
// One that counts what was not measured or not sent.
bool is_loss(abi::MetricId);

MetricKind kind_of(abi::MetricId);

}  // namespace ccld::decision::report
