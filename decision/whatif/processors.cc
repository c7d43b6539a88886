#include "decision/whatif/processors.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "decision/measure/middle.h"

namespace ccld::decision::whatif {

double common_turn_wait_ns(const std::vector<GpuFacts>& facts) {
  std::map<int, std::vector<double>> of_host;
  for (const GpuFacts& f : facts)
    if (f.turn_wait_ns) of_host[f.host].push_back(*f.turn_wait_ns);
  double least_ns = of_host.empty() ? 0 : INFINITY;
  for (auto& [host, waits_ns] : of_host) least_ns = std::min(least_ns, middle(std::move(waits_ns)));
  return least_ns;
}

}  // namespace ccld::decision::whatif
