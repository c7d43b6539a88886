#include "decision/analysis/ending_jobs.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"

namespace ccld::decision {

bool anybody_is_inside(const Communicator& c) {
  return c.ranks_in_flight() > 0 || c.ranks_in_replay() > 0 || c.ranks_in_p2p() > 0;
}

bool EndingJobs::nobody_is_left(const Watch& w, Nanoseconds now_ns) const {
  const auto speaks = [&](const RankModel& r) { return r.process && !has_left(*r.process, now_ns); };
  const auto gone = [](const RankModel& r) { return r.process && r.process->gone(); };
  const auto any_speaks = [&](const Communicator& comm) {
    return std::any_of(comm.ranks().begin(), comm.ranks().end(), speaks);
  };
  // Where nobody was seen to leave it may be the network.
  if (any_speaks(w.comm) || std::none_of(w.comm.ranks().begin(), w.comm.ranks().end(), gone)) return false;
  return !w.hang.of_hang || std::none_of(watches_.begin(), watches_.end(), [&](const auto& entry) {
    const Watch& other = *entry.second;
    return other.hang.of_hang == w.hang.of_hang && anybody_is_inside(other.comm) && any_speaks(other.comm);
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
