#include "decision/paper/locate_slow.h"

#include <algorithm>
#include <cstdint>

#include "decision/paper/comparable.h"

namespace ccld::decision {

Finding locate_slow_paper(const Communicator& comm, const PaperRound& worst, const Settings& settings) {
  Finding f;
  f.op = worst.op;
  f.signature = worst.signature;
  const double p = worst.p();
  add_evidence(f, paper_value("longest duration of the call on a rank (T_max)", worst.t_max_ns / 1e6, "ms"));
  add_evidence(f, paper_value("shortest (T_min)", worst.t_min_ns / 1e6, "ms"));
  add_evidence(f,
               paper_value(worst.base_is_fixed ? "usual in the first calls (T_base)" : "usual as configured (T_base)",
                           worst.t_base_ns / 1e6, "ms"));
  add_evidence(f, paper_value("slowdown, (T_max - T_base) / T_base", worst.ratio(), ""));
  add_evidence(f, paper_value("part of it that is waiting, (T_max - T_min) / (T_max - T_base)", p, ""));
  f.fault = p > settings.slow_beta    ? FaultClass::s1_computation_slow
            : p < settings.slow_alpha ? FaultClass::s2_communication_slow
                                      : FaultClass::s3_mixed_slow;
  // The layer with the largest range: where the least duration and the least rate are looked for.
  std::vector<Rank> layer;
  for (const auto& group : comparable_groups(comm, worst.signature.algorithm)) {
    Nanoseconds high = 0, low = INT64_MAX;
    for (Rank r : group) {
      high = std::max(high, worst.durations_ns[r.value]);
      low = std::min(low, worst.durations_ns[r.value]);
    }
    if (layer.empty() || static_cast<double>(high - low) == worst.range_ns) layer = group;
  }
  if (f.fault != FaultClass::s2_communication_slow) {
    const Rank r = *std::min_element(layer.begin(), layer.end(), [&](Rank a, Rank b) {
      return worst.durations_ns[a.value] < worst.durations_ns[b.value];
    });
    f.culprits.push_back(
        make_culprit(comm, r, Component::unknown, Condition::unknown, "shortest communication time: it comes last"));
    f.culprits.back().lost_time_share = std::min(1.0, p);
  }
  if (f.fault != FaultClass::s1_computation_slow) {
    // A rate is the reciprocal of the number of changes: the most changes are the least rate.
    const auto changes = [&](Rank r) { return worst.send_changes[r.value] + worst.recv_changes[r.value]; };
    const Rank r =
        *std::max_element(layer.begin(), layer.end(), [&](Rank a, Rank b) { return changes(a) < changes(b); });
    const bool tie = std::count_if(layer.begin(), layer.end(), [&](Rank x) { return changes(x) == changes(r); }) > 1;
    if (tie) {
      for (Rank x : layer)
        if (changes(x) == changes(r)) f.candidates.push_back(x);
    } else {
      f.culprits.push_back(make_culprit(comm, r, Component::unknown, Condition::unknown,
                                        "moves steps at the lowest rate (SendRate, RecvRate)"));
      f.culprits.back().lost_time_share = std::clamp(1 - p, 0.0, 1.0);
      add_evidence(f, paper_value("changes of SendCount and RecvCount", changes(r), "samples", r.value));
    }
  }
  f.confidence = 0.5;
  f.next_step = "Rules of the paper: run with rules=default for shares of lost time and stages of links.";
  collect_victims(comm, f);
  return f;
}

}  // namespace ccld::decision
