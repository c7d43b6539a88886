#include "decision/analysis/hangs.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "decision/detect/p2p.h"
#include "decision/locate/across.h"
#include "decision/locate/paper.h"

namespace ccld::decision {
namespace {

// Once a hang is known it is looked at again at this pace, for confirmation and better evidence.
constexpr Nanoseconds relocate_every_ns = 500 * ns_per_ms;
constexpr const char* hang_follows = "the communicator hangs since operation";

}  // namespace

void HangAnalysis::look(Watch& w, Nanoseconds now_ns) {
  const std::optional<HangView> view = w.hang_detector.check(w.comm, processes_, settings_, now_ns);
  if (view && (!w.stuck || now_ns - w.located_ns >= relocate_every_ns)) {
    Finding f = settings_.rules == RuleSet::paper ? locate_hang_paper(w.comm, *view, settings_, now_ns)
                                                 : locate_hang(w.comm, *view, settings_, now_ns);
    if (view->early && !f.hard) return;
    w.located_ns = now_ns;
    w.hang_finding = std::move(f);
    if (view->overdue) w.hang_finding.hard = true;
    if (!w.stuck) w.moved_at_hang_ns = w.comm.moved_ns();
    w.stuck = true;
    w.stuck_in_p2p = false;
  }
  if (!view && (!w.stuck || w.stuck_in_p2p)) return look_for_p2p_hang(w, now_ns);
  if (w.stuck && w.comm.moved_ns() > w.moved_at_hang_ns) movement_resumed(w, now_ns);
  const bool inside = w.comm.ranks_in_flight() > 0 || w.comm.ranks_in_replay() > 0;
  if (w.stuck && !inside) end_hang(w, now_ns);
}

void HangAnalysis::look_for_p2p_hang(Watch& w, Nanoseconds now_ns) {
  if (settings_.rules == RuleSet::paper || (w.comm.ranks_in_p2p() == 0 && !w.stuck)) return;
  if (now_ns - w.located_ns < relocate_every_ns) return;
  w.located_ns = now_ns;
  std::optional<Finding> f = find_p2p_hang(
      w.comm, processes_, settings_, now_ns,
      [this](const ProcessModel& process, CommUid except) { return moved_elsewhere(process, except); });
  if (f) {
    w.hang_finding = *std::move(f);
    w.stuck = w.stuck_in_p2p = true;
  } else if (w.stuck) {
    end_hang(w, now_ns);
  }
}

Nanoseconds HangAnalysis::moved_elsewhere(const ProcessModel& process, CommUid except) const {
  Nanoseconds moved_ns = 0;
  for (const ProcessModel::Membership& m : process.memberships) {
    const auto it = watches_.find(m.comm);
    if (m.comm == except || it == watches_.end()) continue;
    if (const RankModel* r = it->second->comm.rank(m.rank)) moved_ns = std::max(moved_ns, r->moved_ns);
  }
  return moved_ns;
}

// The operation that hung, or a later one, moves again.
void HangAnalysis::movement_resumed(Watch& w, Nanoseconds now_ns) {
  // A rank that only calls further operations, or a part that still creeps, has not ended the hang.
  const std::optional<HangView> view = view_hang(w.comm, processes_);
  const bool same = view && (view->replay == 0 && w.hang_finding.replay == 0 ? view->op <= w.hang_finding.op
                                                                              : view->key() == w.hang_finding.key());
  if (same) {
    w.moved_at_hang_ns = w.comm.moved_ns();
    return;
  }
  end_hang(w, now_ns);
}

void HangAnalysis::end_hang(Watch& w, Nanoseconds now_ns) {
  const bool fault = w.hang_confirmed || w.hang_finding.fault != FaultClass::h1_not_entered;
  if (fault) w.hang_detector.forget_pause();
  writer_.book().resolve(w.hang_incident, now_ns);
  w.hang_incident = 0;
  w.hang_confirmed = false;
  w.stuck = w.stuck_in_p2p = false;
}

void HangAnalysis::settle(Nanoseconds now_ns) {
  absl::flat_hash_map<CommUid, StuckComm> stuck;
  for (const auto& [uid, w] : watches_)
    if (w->stuck) stuck[uid] = {&w->comm, &w->hang_finding};
  if (stuck.empty()) return;
  absl::flat_hash_map<CommUid, std::vector<const Communicator*>> victims;
  std::vector<Watch*> causes;
  for (const auto& [uid, s] : stuck) {
    Watch& w = *watches_.find(uid)->second;
    const Cause cause = find_cause(uid, stuck);
    if (!cause.cycle.empty()) describe_cycle(*watches_.find(cause.comm)->second, cause.cycle);
    if (cause.comm == uid) {
      causes.push_back(&w);
    } else {
      victims[cause.comm].push_back(&w.comm);
      // It had been taken for a cause before the real one was known.
      writer_.book().resolve(w.hang_incident, now_ns);
      w.hang_incident = 0;
    }
  }
  for (Watch* w : causes) {
    Finding f = w->hang_finding;
    std::vector<const Communicator*>& others = victims[w->comm.uid()];
    std::sort(others.begin(), others.end(),
              [](const Communicator* a, const Communicator* b) { return a->uid() < b->uid(); });
    for (const Communicator* c : others) {
      f.victims.insert(f.victims.end(), c->rank_count(), Rank{-1});
      add_evidence(
          f, -1,
          absl::StrCat("ranks of communicator ",
                       c->name().empty() ? absl::StrCat(absl::Hex(c->uid().value)) : c->name(), " wait for it"),
          c->rank_count(), "ranks");
    }
    settle_hang(*w, f, now_ns);
  }
}

void HangAnalysis::describe_cycle(Watch& w, const std::vector<CommUid>& cycle) {
  Finding& f = w.hang_finding;
  f.fault = FaultClass::h2_inconsistent;
  f.candidates.clear();
  for (const Culprit& c : f.culprits) f.candidates.push_back(c.rank);
  f.culprits.clear();
  f.confidence = 0.7;
  add_evidence(f, -1, "communicators that wait for each other in a cycle", static_cast<double>(cycle.size()),
               "communicators");
  f.next_step =
      "Communicators were entered in different orders by different processes: compare the order of calls of the "
      "candidates.";
}

void HangAnalysis::settle_hang(Watch& w, Finding& f, Nanoseconds now_ns) {
  std::vector<Rank> sampled;
  for (Rank r : f.victims)
    if (r.value >= 0 && sampled.size() < victims_sampled) sampled.push_back(r);

  // Mismatched operations leave the steps of connections apart: what hangs afterwards is their consequence.
  if (Incident* m = writer_.book().find(w.mismatch_incident);
      m && m->state != VerdictState::resolved && settings_.rules == RuleSet::measured) {
    const bool first =
        w.mismatch_ns != now_ns && std::none_of(m->evidence.begin(), m->evidence.end(),
                                                [](const Evidence& e) { return e.what == hang_follows; });
    w.mismatch_ns = now_ns;
    if (first) {
      m->evidence.push_back({-1, hang_follows, static_cast<double>(f.op.value), "operation"});
      writer_.book().changed(m->id);
    }
    return;
  }
  if (w.hang_incident == 0) {
    w.hang_incident = writer_.open(w.comm, f, w.comm.moved_ns(), now_ns);
  } else {
    writer_.update(w.hang_incident, w.comm, f, now_ns);
  }
  if (Incident* i = writer_.book().find(w.hang_incident)) i->victim_sample = sampled;
  if (f.hard) {
    w.hang_confirmed = true;
    writer_.book().confirm(w.hang_incident, now_ns);
  }
}

}  // namespace ccld::decision
