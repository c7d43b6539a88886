#include "decision/report/departed_metrics.h"

#include <algorithm>
#include <limits>

namespace ccld::decision::report {

std::map<abi::MetricId, int64_t> departed_metrics(const Snapshot& before, const StatusView& now) {
  std::map<abi::MetricId, int64_t> sums = before.departed_metrics;
  // Both are in order of ProcessId (status.h).
  auto still = now.processes.begin();
  for (const ProcessStatus& p : before.status.processes) {
    while (still != now.processes.end() && still->process < p.process) ++still;
    const bool stays = still != now.processes.end() && still->process == p.process;
    // One without a host is not gone when it gets its host's name.
    if (stays || !p.metrics || p.process.host.empty()) continue;
    for (const MetricValue& v : *p.metrics) {
      if (type_of(v.id) != MetricType::counter || v.value <= 0) continue;
      int64_t& sum = sums[v.id];
      sum += std::min(v.value, std::numeric_limits<int64_t>::max() - sum);
    }
  }
  return sums;
}

}  // namespace ccld::decision::report
