#include "decision/analysis/ending_jobs.h"

#include <algorithm>
#include <optional>

namespace ccld::decision {

namespace {

Nanoseconds last_movement_ns(const std::vector<Watch*>& job) {
  Nanoseconds moved_ns = 0;
  for (const Watch* w : job) moved_ns = std::max(moved_ns, w->comm.moved_ns());
  return moved_ns;
}

}  // namespace

bool anybody_is_inside(const Communicator& c) {
  return c.ranks_in_flight() > 0 || c.ranks_in_replay() > 0 || c.ranks_in_p2p() > 0;
}

bool EndingJobs::anybody_speaks(const Communicator& comm, Nanoseconds now_ns) {
  const auto speaks = [&](const RankModel& r) { return r.process && !has_left(*r.process, now_ns); };
  return std::any_of(comm.ranks().begin(), comm.ranks().end(), speaks);
}

bool EndingJobs::nobody_is_left(const Watch& w, Nanoseconds now_ns) const {
  const auto gone = [](const RankModel& r) { return r.process && r.process->gone(); };
  // Where nobody was seen to leave it may be the network.
  if (anybody_speaks(w.comm, now_ns) || std::none_of(w.comm.ranks().begin(), w.comm.ranks().end(), gone)) return false;
  return !w.hang.of_hang || std::none_of(watches_.begin(), watches_.end(), [&](const auto& entry) {
    const Watch& other = *entry.second;
    return other.hang.of_hang == w.hang.of_hang && anybody_is_inside(other.comm) && anybody_speaks(other.comm, now_ns);
  });
}

void EndingJobs::mark(Nanoseconds now_ns) {
  const auto stuck = [&](CommUid home) {
    const auto it = watches_.find(home);
    return it != watches_.end() && it->second->hang.stuck;
  };
  absl::flat_hash_map<CommUid, CommUid> moved;  // the job hangs on, by another communicator
  for (auto& [uid, w] : watches_)
    if (marked_ && w->hang.stuck && w->hang.of_hang && !stuck(*w->hang.of_hang))
      moved.try_emplace(*w->hang.of_hang, uid);
  for (auto& [uid, w] : watches_) {
    if (!marked_ || !w->hang.of_hang || stuck(*w->hang.of_hang)) continue;
    if (const auto it = moved.find(*w->hang.of_hang); it != moved.end()) {
      w->hang.of_hang = it->second;
    } else {
      w->hang.of_hang.reset();
      processes_.departures().hangs(uid, std::nullopt);
    }
  }
  marked_ = false;
  for (auto& [uid, w] : watches_) {
    if (w->hang.stuck && !w->hang.of_hang) mark_job(*w, now_ns);
    marked_ |= w->hang.of_hang.has_value();
  }
}

void EndingJobs::visit_job(Watch& start, const std::function<bool(Watch&)>& visit) {
  std::vector<Watch*> job;
  const auto add = [&](Watch& w) {
    if (visit(w)) job.push_back(&w);
  };
  add(start);
  absl::flat_hash_set<const ProcessModel*> seen;
  for (size_t i = 0; i < job.size(); ++i)
    for (const RankModel& r : job[i]->comm.ranks()) {
      if (!r.process || !seen.insert(r.process).second) continue;
      for (const ProcessModel::Membership& m : r.process->memberships)
        if (const auto it = watches_.find(m.comm); !m.ended && it != watches_.end()) add(*it->second);
    }
}

void EndingJobs::mark_job(Watch& home, Nanoseconds now_ns) {
  visit_job(home, [&](Watch& w) {
    if (w.hang.of_hang) return false;
    w.hang.of_hang = home.comm.uid();
    processes_.departures().hangs(w.comm.uid(), now_ns);
    return true;
  });
}

std::vector<Watch*> EndingJobs::job_of(Watch& start) {
  std::vector<Watch*> job;
  absl::flat_hash_set<const Watch*> seen;
  visit_job(start, [&](Watch& w) {
    const bool first = seen.insert(&w).second;
    if (first) job.push_back(&w);
    return first;
  });
  return job;
}

bool EndingJobs::stood_before(const absl::flat_hash_map<CommUid, Nanoseconds>& timeouts_ns) {
  bool any = false;
  absl::flat_hash_set<const Watch*> looked_at;
  for (const auto& [uid, own_ns] : timeouts_ns) {
    Watch& w = *watches_.at(uid);
    if (stood_before_.contains(uid) || looked_at.contains(&w)) continue;
    const std::vector<Watch*> job = job_of(w);
    looked_at.insert(job.begin(), job.end());
    const Nanoseconds moved_ns = last_movement_ns(job);
    Nanoseconds timeout_ns = own_ns, first_heard_ns = w.comm.first_heard_ns();
    for (const Watch* other : job) {
      first_heard_ns = std::min(first_heard_ns, other->comm.first_heard_ns());
      if (const auto it = timeouts_ns.find(other->comm.uid()); it != timeouts_ns.end())
        timeout_ns = std::max(timeout_ns, it->second);
    }
    if (moved_ns >= first_heard_ns) continue;
    for (const Watch* other : job) {
      stood_before_.emplace(other->comm.uid(), moved_ns);
      any |= processes_.departures().hung_before(other->comm.uid(), moved_ns + timeout_ns);
    }
  }
  return any;
}

bool EndingJobs::forget_moved() {
  std::vector<Watch*> moved;
  absl::erase_if(stood_before_, [&](const auto& entry) {
    const auto it = watches_.find(entry.first);
    if (it != watches_.end() && it->second->comm.moved_ns() > entry.second) moved.push_back(it->second.get());
    return it == watches_.end();
  });
  for (Watch* start : moved)
    for (const Watch* w : job_of(*start))
      if (stood_before_.erase(w->comm.uid()) > 0) processes_.departures().hung_before(w->comm.uid(), std::nullopt);
  return !moved.empty();
}

bool EndingJobs::spread_losses() {
  bool any = false;
  Departures& departures = processes_.departures();
  for (CommUid comm : departures.new_losses()) {
    const auto it = watches_.find(comm);
    const auto lost_ns = departures.first_loss_ns(comm);
    if (it == watches_.end() || !lost_ns) continue;
    visit_job(*it->second,
              [&](Watch& w) { return &w == it->second.get() || departures.job_lost(w.comm.uid(), *lost_ns); });
    any = true;
  }
  return any;
}

EndingJobs::Ending EndingJobs::find(const std::vector<Stall>& stalls, const std::vector<Watch*>& watches) const {
  Ending out;
  for (size_t i = 0; marked_ && i < stalls.size(); ++i) {
    if (!watches[i]->hang.of_hang || out.over.contains(*watches[i]->hang.of_hang)) continue;
    for (const RankModel& r : stalls[i].comm->ranks())
      if (stalls[i].view.ranks[r.rank.value].life == Life::left)
        (left_a_hang(r, processes_) ? out.over : out.begun).insert(*watches[i]->hang.of_hang);
  }
  return out;
}

}  // namespace ccld::decision
