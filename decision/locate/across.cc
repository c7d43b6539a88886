#include "decision/locate/across.h"

#include <algorithm>

namespace ccld::decision {
namespace {

// The communicator in which the processes that `c` waits for are stuck; uid 0: at least one of them is stuck in none.
CommUid waits_on(const StuckComm& c, const absl::flat_hash_map<CommUid, StuckComm>& stuck) {
  if (c.finding->fault != FaultClass::h1_not_entered || c.finding->culprits.empty()) return {};
  CommUid found;
  for (const Culprit& culprit : c.finding->culprits) {
    const RankModel* absent = c.comm->rank(culprit.rank);
    if (!absent || !absent->process) return {};
    CommUid other;
    for (const ProcessModel::Membership& m : absent->process->memberships) {
      if (m.comm == c.comm->uid()) continue;
      auto it = stuck.find(m.comm);
      if (it == stuck.end()) continue;
      const RankModel* there = it->second.comm->rank(m.rank);
      if (!there || !there->waiting()) continue;
      // Where it is the culprit itself, it is not stuck for somebody else's sake.
      const auto& culprits = it->second.finding->culprits;
      if (std::any_of(culprits.begin(), culprits.end(), [&](const Culprit& x) { return x.rank == m.rank; })) {
        if (it->second.finding->fault == FaultClass::h1_not_entered) continue;
      }
      other = m.comm;
      break;
    }
    if (other == CommUid{}) return {};
    if (found == CommUid{}) found = other;
  }
  return found;
}

}  // namespace

Cause find_cause(CommUid start, const absl::flat_hash_map<CommUid, StuckComm>& stuck) {
  std::vector<CommUid> path{start};
  while (true) {
    auto it = stuck.find(path.back());
    if (it == stuck.end()) return {start, {}};
    const CommUid next = waits_on(it->second, stuck);
    if (next == CommUid{}) return {path.back(), {}};
    auto seen = std::find(path.begin(), path.end(), next);
    if (seen != path.end()) return {*std::min_element(seen, path.end()), {seen, path.end()}};
    path.push_back(next);
  }
}

}  // namespace ccld::decision
