#include "decision/model/departures.h"

#include "decision/model/processes.h"

namespace ccld::decision {
namespace {

// After that a hang of the others has been said, or they do not need who was lost.
constexpr Nanoseconds follows_within_ns = 60 * ns_per_s;

}  // namespace

void Departures::lost(const ProcessModel& process) {
  for (const ProcessModel::Membership& m : process.memberships)
    if (!m.ended && job_lost(m.comm, process.state_since_ns)) new_losses_.insert(m.comm);
}

std::optional<Nanoseconds> Departures::first_loss_ns(CommUid comm) const {
  const auto it = broken_.find(comm);
  return it == broken_.end() ? std::nullopt : it->second.lost_ns;
}

bool Departures::job_lost(CommUid comm, Nanoseconds lost_ns) {
  std::optional<Nanoseconds>& first_ns = broken_[comm].lost_ns;
  if (first_ns && *first_ns <= lost_ns) return false;
  first_ns = lost_ns;
  return true;
}

bool Departures::set(CommUid comm, std::optional<Nanoseconds> Broken::*which, std::optional<Nanoseconds> at_ns) {
  const auto known = broken_.find(comm);
  if (known == broken_.end() && !at_ns) return false;
  Broken& broken = known == broken_.end() ? broken_[comm] : known->second;
  const bool changes = broken.*which != at_ns;
  broken.*which = at_ns;
  if (!broken.any()) broken_.erase(comm);
  return changes;
}

bool Departures::silent(CommUid comm, std::optional<Nanoseconds> left_by_ns) {
  return set(comm, &Broken::silent_ns, left_by_ns);
}

void Departures::hangs(CommUid comm, std::optional<Nanoseconds> since_ns) { set(comm, &Broken::hangs_ns, since_ns); }

bool Departures::hung_before(CommUid comm, std::optional<Nanoseconds> due_ns) {
  return set(comm, &Broken::hung_before_ns, due_ns);
}

Departures::Why Departures::why(const ProcessModel& process, Left left, Nanoseconds apart_ns) const {
  Why why = Why::itself;
  const auto follows = [&](std::optional<Nanoseconds> loss_ns, Nanoseconds left_ns) {
    return loss_ns && left_ns - *loss_ns > apart_ns && left_ns - *loss_ns < follows_within_ns;
  };
  for (const ProcessModel::Membership& m : process.memberships) {
    const auto it = broken_.find(m.comm);
    if (it == broken_.end() || (m.ended && process.gone())) continue;
    const Broken& broken = it->second;
    const auto leaves = [&](std::optional<Nanoseconds> hang_ns) { return hang_ns && left.from_ns > *hang_ns; };
    if (leaves(broken.hangs_ns) || leaves(broken.hung_before_ns)) return Why::after_a_hang;
    if (follows(broken.lost_ns, left.by_ns) || follows(broken.silent_ns, left.from_ns)) why = Why::after_loss;
  }
  return why;
}

}  // namespace ccld::decision
