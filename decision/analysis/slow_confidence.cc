#include "decision/analysis/slow_confidence.h"

#include <algorithm>
#include <set>

namespace ccld::decision {

const std::vector<SlowConfidence>& slow_confidences() {
  // What fits 600 simulated slow faults (500000 to 500599), a little less where all were right. Rows of 0.85 had no
  // incident there.
  static const std::vector<SlowConfidence> rows = {
      {Basis::peers, Component::gpu, 0.97},
      {Basis::peers, Component::process, 0.97},
      {Basis::past, Component::gpu, 0.99},
      {Basis::past, Component::process, 0.97},
      {Basis::connections, Component::link, 0.98},
      {Basis::connections, Component::proxy, 0.98},
      {Basis::connections, Component::gpu, 0.85},
      {Basis::past_connections, Component::link, 0.85},
      {Basis::past_connections, Component::proxy, 0.85},
      {Basis::past_connections, Component::gpu, 0.85},
      {Basis::transfers, Component::link, 0.92},
      {Basis::transfers, Component::proxy, 0.95},
      {Basis::past_transfers, Component::link, 0.85},
      {Basis::past_transfers, Component::proxy, 0.5},
      {Basis::expectation, Component::link, 0.85},
      {Basis::expectation, Component::proxy, 0.85},
      {Basis::processors, Component::host, 0.85},  // the simulator knows no host that is short of processors
      {Basis::gaps, Component::process, 0.7},
      {Basis::unknown, Component::unknown, 0.5},  // and where nobody is named
  };
  return rows;
}

const SlowConfidence& row_of(const Culprit& c) {
  const std::vector<SlowConfidence>& rows = slow_confidences();
  const Component component = c.component == Component::nic ? Component::link : c.component;
  const auto row = std::find_if(rows.begin(), rows.end() - 1, [&](const SlowConfidence& r) {
    return r.basis == c.basis && r.component == component;
  });
  return *row;  // the last one is for whatever has none of its own
}

double confidence_of(const std::vector<Culprit>& culprits) {
  if (culprits.empty()) return slow_confidences().back().right;
  double right = 1;
  std::set<int> causes;
  for (const Culprit& c : culprits)
    if (causes.insert(c.cause).second) right *= row_of(c).right;
  return right;
}

}  // namespace ccld::decision
