#include "decision/locate/unseen.h"

#include <algorithm>

namespace ccld::decision {

const UnseenWaits::Wait& UnseenWaits::of(const Communicator& comm, const RankModel& r) {
  static const Wait none;
  if (r.unseen.value == 0 || r.unseen != r.entered || r.entered < comm.entered_max() || r.left()) return none;
  const auto [it, added] = known_.try_emplace(comm.uid());
  if (added) it->second = find(comm);
  return it->second;
}

UnseenWaits::Wait UnseenWaits::find(const Communicator& comm) const {
  Wait wait;
  bool some_wait = false;
  for (const RankModel& r : comm.ranks()) {
    if (r.entered < comm.entered_max() && wait.behind.size() < behind_max) wait.behind.push_back(r.rank);
    some_wait |= r.process && waits_somewhere(*r.process, r.gpu());
  }
  wait.possible = !wait.behind.empty() || !some_wait;
  return wait;
}

bool UnseenWaits::waits_somewhere(const ProcessModel& process, int device) const {
  return std::any_of(process.memberships.begin(), process.memberships.end(), [&](const ProcessModel::Membership& m) {
    const Communicator* const comm = find_(m.comm);
    const RankModel* const r = comm ? comm->rank(m.rank) : nullptr;
    return r && r->process == &process && r->gpu() == device && r->waiting();
  });
}

}  // namespace ccld::decision
