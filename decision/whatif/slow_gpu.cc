#include "decision/whatif/slow_gpu.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ccld::decision::whatif {

SlowGpu find_slow_gpu(const Connections& connections, const StepReference& reference,
                      const std::set<int32_t>& out_of_sight) {
  SlowGpu out;
  struct Gpu {
    double in = INFINITY, out = 0;
    bool sends = false;
    SlowLink link;
    double down() const { return std::isfinite(in) && sends ? in - out : 0; }
  };
  std::map<int32_t, Gpu> gpus;
  for (const auto& [ends, c] : connections) {
    const StepReference::Untaken untaken = reference.untaken(ends, c);
    out.slow |= untaken.by_past && untaken.longer_ns > 0;
    const double queued = c.times.waiting(untaken.longer_ns);
    Gpu &to = gpus[ends.second], &from = gpus[ends.first];
    from.sends = true;
    from.out = std::max(from.out, c.times.waiting(std::max(0.0, c.times.most_ns(to_be_taken) - untaken.usual_ns)));
    if (queued >= to.in) continue;
    to.in = queued;
    to.link.sender = Rank{ends.first}, to.link.receiver = to.link.at = Rank{ends.second};
    to.link.component = Component::gpu;
    to.link.steps = to.link.waiting[to_be_taken] = queued;
    to.link.by_past = untaken.by_past;
    to.link.lost_part = c.lost_part(untaken.longer_ns), to.link.lost_most_part = c.lost_most_part(untaken.longer_ns);
    if (untaken.by_past) to.link.lost_since_part = to.link.lost_part;
  }
  for (int32_t rank : out_of_sight) gpus.erase(rank);
  const auto most = std::max_element(gpus.begin(), gpus.end(),
                                     [](const auto& a, const auto& b) { return a.second.down() < b.second.down(); });
  // Where the queues of several step down alike nobody knows which one is the cause.
  if (most != gpus.end() && most->second.down() > 0 && 2 * most->second.out <= most->second.in &&
      std::none_of(gpus.begin(), gpus.end(), [&](const auto& of) {
        return of.first != most->first && 2 * of.second.down() > most->second.down();
      }))
    out.link = most->second.link;
  return out;
}

}  // namespace ccld::decision::whatif
