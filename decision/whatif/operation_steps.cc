#include "decision/whatif/operation_steps.h"

#include <algorithm>
#include <cmath>

namespace ccld::decision::whatif {
namespace {

OperationSteps steps_of(const CollectiveRound& round) {
  OperationSteps out;
  out.transfer_ns = round.transfer_ns;
  double first_ns = INFINITY, last_ns = -INFINITY;
  for (double ns : round.begins_ns)
    if (!std::isnan(ns)) first_ns = std::min(first_ns, ns), last_ns = std::max(last_ns, ns);
  out.begins_apart_ns = last_ns - first_ns;
  for (const auto& [edge, i] : round.links) {
    if (i.steps <= 0) continue;
    const double begun_ns = at(round.begins_ns, edge.sender);
    const auto later_ns = [&](double ns) { return std::isfinite(ns - begun_ns) ? ns - begun_ns : 0; };
    const auto receiver = static_cast<size_t>(edge.receiver);
    out.passages[{edge.sender, edge.receiver}].add(
        i, {later_ns(round.begins_ns[receiver]), later_ns(round.posted_ns[receiver]), later_ns(last_ns), true});
  }
  return out;
}

}  // namespace

std::vector<OperationKind> kinds_in(const std::vector<CollectiveRound>& rounds) {
  std::map<size_t, OperationKind> kinds;
  for (const CollectiveRound& r : rounds) {
    if (r.links.empty() || r.transfer_ns <= 0) continue;
    OperationKind& k = kinds[r.kind];
    k.kind = r.kind;
    k.rounds.push_back(&r);
    k.operations.push_back(steps_of(r));
    k.sum_ns += r.transfer_ns;
  }
  std::vector<OperationKind> out;
  for (auto& [number, kind] : kinds) out.push_back(std::move(kind));
  std::stable_sort(out.begin(), out.end(),
                   [](const OperationKind& a, const OperationKind& b) { return a.sum_ns > b.sum_ns; });
  return out;
}

}  // namespace ccld::decision::whatif
