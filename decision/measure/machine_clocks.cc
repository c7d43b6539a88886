#include "decision/measure/machine_clocks.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "decision/measure/middle.h"

namespace ccld::decision {
namespace {

constexpr auto sent = static_cast<size_t>(Interval::sent_to_arrived),
               handed = static_cast<size_t>(Interval::handed_to_sent);

constexpr size_t pairs_max = 1 << 16;  // of machines, 100 bytes each

bool between_machines(const EdgeIntervals& i) {
  return i.two_clocks && !std::isnan(i.ns[sent]) && i.known[handed] && i.sender_machine >= 0 && i.receiver_machine >= 0;
}

// By how much the median of these may be wrong: so many of its standard errors.
double error_of_median(double median_ns, std::vector<double> ns, double errors) {
  const double count = static_cast<double>(ns.size());
  for (double& n : ns) n = std::abs(n - median_ns);
  return errors * 1.2533 * standard_deviation(median(ns)) / std::sqrt(count);  // sqrt(pi / 2) times that of a mean
}

// Of a window: from when a step was handed to the network to when it arrived, by both clocks.
class Crossings {
 public:
  Crossings(const std::vector<Links*>& operations, size_t operations_min, double errors) {
    struct Seen {
      std::vector<double> ns, sent_realtime_ns;
    };
    std::map<std::pair<int, int>, Seen> seen;
    for (const Links* links : operations)
      for (const auto& [edge, i] : *links) {
        if (!between_machines(i)) continue;
        Seen& s = seen[{i.sender_machine, i.receiver_machine}];
        if (i.same_steps) s.ns.push_back(i.ns[handed] + i.ns[sent]);
        s.sent_realtime_ns.push_back(i.sent_realtime_ns);
      }
    for (auto& [ends, s] : seen) {
      sent_realtime_ns_[ends] = median(s.sent_realtime_ns);
      // One operation is sampled too coarsely, and a few do not tell how coarsely.
      if (s.ns.size() < operations_min) continue;
      const double middle_ns = median(s.ns);
      hops_[ends.first][ends.second] = middle_ns + error_of_median(middle_ns, s.ns, errors);
    }
  }
  double sent_realtime_ns(int from, int to) const { return sent_realtime_ns_.at({from, to}); }
  // Over the fewest machines: each of them adds its own doubt.
  double quickest_ns(int from, int to) const {
    std::map<int, double> reached{{from, 0}};
    std::queue<int> next;
    for (next.push(from); !next.empty(); next.pop()) {
      const int here = next.front();
      if (here == to) return reached[to];
      if (const auto hops = hops_.find(here); hops != hops_.end())
        for (const auto& [onward, ns] : hops->second)
          if (reached.emplace(onward, reached[here] + ns).second) next.push(onward);
    }
    return INFINITY;
  }

 private:
  std::map<int, std::map<int, double>> hops_;
  std::map<std::pair<int, int>, double> sent_realtime_ns_;
};

}  // namespace

int MachineClocks::number_of(std::string_view boot_id) {
  const auto it = numbers_.find(boot_id);
  return it != numbers_.end() ? it->second : numbers_.emplace(boot_id, static_cast<int>(numbers_.size())).first->second;
}

MachineClocks::Range MachineClocks::told_by_batches(Ends ends) const {
  const auto sender = batches_after_ns_.find(ends.first), receiver = batches_after_ns_.find(ends.second);
  if (sender == batches_after_ns_.end() || receiver == batches_after_ns_.end()) return {};
  const double ahead_ns = sender->second - receiver->second;
  return {ahead_ns - limits_.batches_differ_max_ns, ahead_ns + limits_.batches_differ_max_ns};
}

MachineClocks::Range MachineClocks::ahead(Ends ends, const Range& seen, double sent_realtime_ns) {
  if (differences_.size() >= pairs_max && !differences_.contains(ends)) return seen;
  const auto [at, first] = differences_.try_emplace(ends);
  Difference& d = at->second;
  const double age_ns = std::max(0.0, sent_realtime_ns - d.last_ns);
  const Range predicted{d.last.least + d.drift.least * age_ns, d.last.most + d.drift.most * age_ns};
  if (first || predicted.within(seen).empty()) {
    d = {sent_realtime_ns, sent_realtime_ns, seen, seen, {-limits_.drift_part_max, limits_.drift_part_max}};
    return seen;
  }
  d.last_ns = sent_realtime_ns;
  d.last = predicted.within(seen);
  if (const double all_ns = sent_realtime_ns - d.first_ns; all_ns > 0) {
    const Range told{(seen.least - d.first.most) / all_ns, (seen.most - d.first.least) / all_ns};
    if (!d.drift.within(told).empty()) d.drift = d.drift.within(told);
  }
  return d.last;
}

void MachineClocks::compare(const std::vector<Links*>& operations) {
  const Crossings crossings(operations, limits_.operations_min, limits_.errors);
  std::map<Ends, Range> known;
  for (Links* links : operations)
    for (auto& [edge, i] : *links) {
      if (!between_machines(i)) continue;
      const Ends ends{i.sender_machine, i.receiver_machine};
      auto it = known.find(ends);
      if (it == known.end()) {
        const Range seen{-crossings.quickest_ns(ends.second, ends.first),
                         crossings.quickest_ns(ends.first, ends.second)},
            by_steps = ahead(ends, seen, crossings.sent_realtime_ns(ends.first, ends.second)),
            by_both = by_steps.within(told_by_batches(ends));
        // Steps are proof, which holds for later windows, too. Batches are none: those of a window may all be slow.
        it = known.emplace(ends, by_both.empty() ? by_steps : by_both).first;
      }
      const Range& ahead_ns = it->second;
      i.wire_at_least_ns = std::max(0.0, i.ns[sent] - ahead_ns.most);
      i.ns[sent] -= ahead_ns.least;
      i.known[sent] = std::isfinite(ahead_ns.least);
      for (Interval which : {Interval::awaited_to_handed, Interval::awaited_to_sent}) {
        const auto n = static_cast<size_t>(which);
        i.ns[n] += ahead_ns.most;
        i.known[n] = std::isfinite(i.ns[n]);
      }
    }
}

}  // namespace ccld::decision
