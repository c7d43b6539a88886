#include "decision/measure/wire_circles.h"

#include <algorithm>
#include <cmath>
#include <deque>

namespace ccld::decision {

WireCircles::WireCircles(const Links& links) {
  for (const auto& [edge, i] : links) {
    const auto sent = static_cast<size_t>(Interval::sent_to_arrived);
    if (!i.known[sent] || i.one_clock || i.sender_machine < 0 || i.receiver_machine < 0) continue;
    const auto [at, first] = hops_[i.sender_machine].emplace(i.receiver_machine, i.ns[sent]);
    if (!first) at->second = std::min(at->second, i.ns[sent]);
  }
}

double WireCircles::around_ns(const EdgeIntervals& i) {
  const auto [at, first] = back_ns_.try_emplace({i.receiver_machine, i.sender_machine}, INFINITY);
  if (first) at->second = path_ns(i.receiver_machine, i.sender_machine);
  return std::max(0.0, i.ns[static_cast<size_t>(Interval::sent_to_arrived)] + at->second);
}

double WireCircles::path_ns(int from, int to) const {
  std::map<int, double> reached{{from, 0}};
  std::deque<int> next{from};
  while (!next.empty()) {
    const int at = next.front();
    next.pop_front();
    const double so_far = reached[at];
    if (at == to) return so_far;
    const auto hops = hops_.find(at);
    if (hops == hops_.end()) continue;
    for (const auto& [onward, ns] : hops->second)
      if (reached.emplace(onward, so_far + ns).second) next.push_back(onward);
  }
  return INFINITY;
}

}  // namespace ccld::decision
