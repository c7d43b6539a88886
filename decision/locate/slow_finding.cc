#include "decision/locate/slow_finding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

// A proxy that is known by one of its connections now and by all of them then.
bool is_proxy_of(const Culprit& proxy, const Culprit& connection) {
  return proxy.component == Component::proxy && (connection.peer || connection.component == Component::proxy) &&
         (connection.rank == proxy.rank || connection.peer == proxy.rank);
}

}  // namespace

int next_cause(const Finding& f) {
  int next = 0;
  for (const Culprit& c : f.culprits) next = std::max(next, c.cause + 1);
  return next;
}

bool same_cause(const std::vector<Culprit>& a, const std::vector<Culprit>& b) {
  if (a.empty() || b.empty()) return a.empty() && b.empty();
  for (const Culprit& x : a)
    for (const Culprit& y : b)
      if ((x.rank == y.rank && x.peer == y.peer) || is_proxy_of(x, y) || is_proxy_of(y, x)) return true;
  return false;
}

std::string slow_next_step(const Finding& f) {
  const auto names = [&](Component component) {
    return std::any_of(f.culprits.begin(), f.culprits.end(),
                       [&](const Culprit& c) { return c.component == component; });
  };
  const bool network = names(Component::link) || names(Component::nic), proxy = names(Component::proxy);
  const auto late = [&](Condition condition) {
    return std::any_of(f.culprits.begin(), f.culprits.end(),
                       [&](const Culprit& c) { return c.condition == condition; });
  };
  const bool gpu = late(Condition::gpu_late), process = late(Condition::host_late);
  if (f.fault == FaultClass::s1_computation_slow)
    return gpu && !process   ? "Compare GPU clocks, temperature and power of the named rank with its peers'."
           : process && !gpu ? "Compare data loading, CPU load and the Python stack of the named rank with its peers'."
                             : "Compare GPU clocks, temperature and power, CPU load and data loading of the named "
                               "ranks with their peers'.";
  if (f.fault == FaultClass::s3_mixed_slow)
    return absl::StrCat("Two causes: look at the late rank (",
                        gpu ? "GPU clocks, temperature and power" : "data loading, CPU load, Python stack",
                        ") and at the named ",
                        network ? "link."
                        : proxy ? "proxy (what else runs on its processors)."
                                : "GPU.");
  if (f.culprits.empty())
    return "No link stands out: compare link rates of all nodes, and check whether the whole fabric or machine is "
           "busy.";
  if (proxy && !network)
    return "Check what else runs on the processors of the named process: its proxy thread waits for one (quota, "
           "pinning, data loaders), or hangs in a call of its own.";
  return "Check the named device or link: negotiated rate, errors, congestion, other traffic.";
}

}  // namespace ccld::decision
