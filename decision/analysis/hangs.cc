#include "decision/analysis/hangs.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "decision/analysis/cause_findings.h"
#include "decision/locate/walk.h"

namespace ccld::decision {
namespace {

// Once a hang is known it is looked at again at this pace, for confirmation and better evidence.
constexpr Nanoseconds relocate_every_ns = 500 * ns_per_ms;
constexpr size_t calls_kept_max = 64;
// Whoever has just begun to make a communicator waits for nobody yet.
constexpr Nanoseconds init_waits_ns = ns_per_s;
// So long after a rank's last mismatch a hang at that rank, on any communicator, is its consequence.
constexpr Nanoseconds mismatch_follows_ns = 120 * ns_per_s;

// Ranks that come late, and nothing proves that they cannot: so does a checkpoint look, and a GPU with more to compute.
bool may_be_pause(const Finding& f) { return !f.hard && f.fault == FaultClass::h1_not_entered; }

// After a start of the service in the middle of a job processes speak one after the other: who seems to be missing, or
// to wait for nobody, may not have been heard of yet.
bool may_yet_speak(const Communicator& comm, const Cause& cause, const Finding& f, const ProcessTable& processes) {
  const bool unheard = std::any_of(f.culprits.begin(), f.culprits.end(),
                                   [](const Culprit& c) { return c.condition == Condition::never_heard; });
  return (unheard || (!f.hard && !cause.complete)) &&
         processes.newest_ns() - comm.first_heard_ns() < processes.silent_limit_ns();
}

// All culprits are ranks that were lost. A standstill that is older than the loss is no evidence against them: a job
// that is ended while it waits looks like that for an instant.
bool blames_who_was_lost(const HangView& view, const Finding& f) {
  return !f.culprits.empty() && std::all_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) {
    return c.rank.value >= 0 && static_cast<size_t>(c.rank.value) < view.ranks.size() &&
           cannot_return(view.ranks[c.rank.value].life);
  });
}

bool is_silent(Life life) { return life == Life::silent || life == Life::host_silent; }

// By when the first of those that fell silent had left.
std::optional<Nanoseconds> first_silent_ns(const Communicator& comm, const HangView& view) {
  std::optional<Nanoseconds> first_ns;
  for (const RankModel& r : comm.ranks())
    if (r.process && is_silent(view.ranks[r.rank.value].life))
      first_ns = std::min(first_ns.value_or(INT64_MAX), r.process->heard_ns + leaves_within_ns);
  return first_ns;
}

// Who is gone may have left because of somebody of whom it will be known in a moment that he fell silent before: two of
// his words in a row are missing.
bool may_have_followed(const Communicator& comm, const HangView& view, const Finding& f,
                       const ProcessTable& processes) {
  Nanoseconds gone_ns = INT64_MAX;
  for (const Culprit& c : f.culprits)
    if (const RankModel* r = comm.rank(c.rank); r && r->process && r->process->gone())
      gone_ns = std::min(gone_ns, r->process->state_since_ns);
  return gone_ns < INT64_MAX && std::any_of(comm.ranks().begin(), comm.ranks().end(), [&](const RankModel& r) {
           return r.process && view.ranks[r.rank.value].life == Life::well && r.process->heard_ns < gone_ns &&
                  processes.newest_ns() - r.process->heard_ns > 2 * leaves_within_ns;
         });
}

}  // namespace

void HangAnalysis::look(Watch& w, Nanoseconds now_ns) {
  if (w.hang.is_over(w.comm)) return;
  if (w.hang.held_by_fault_ns) w.hang.detector.forget_pause();
  std::optional<HangView> view = w.hang.detector.check(w.comm, processes_, settings_, now_ns);
  if (w.hang.held_by_fault_ns && w.comm.moved_ns() > *w.hang.held_by_fault_ns) w.hang.held_by_fault_ns.reset();
  if (w.hang.alarm && w.comm.moved_ns() > w.hang.alarm->moved_ns) w.hang.alarm.reset();
  if (view) {
    alarmed_ |= !w.hang.alarm || w.hang.alarm->early != view->early || w.hang.alarm->overdue != view->overdue;
    w.hang.alarm = HangState::Alarm{view->early, view->overdue, w.comm.moved_ns()};
    seen_.insert_or_assign(w.comm.uid(), *std::move(view));
  }
  if (!w.hang.stuck) return;
  if (!anybody_is_inside(w.comm) || jobs_.nobody_is_left(w, now_ns)) return end_hang(w, now_ns);
  if (w.comm.moved_ns() > w.hang.moved_ns) {
    if (!goes_on(w)) return end_hang(w, now_ns);
    w.hang.moved_ns = w.comm.moved_ns();
  }
}

bool HangAnalysis::goes_on(const Watch& w) const {
  if (std::any_of(w.hang.calls.begin(), w.hang.calls.end(), [&](const P2pWait& c) { return still_waits(w.comm, c); }))
    return true;
  return still_hangs(w.comm, w.hang.key, processes_, settings_);
}

void HangAnalysis::end_hang(Watch& w, Nanoseconds now_ns) {
  if (jobs_.nobody_is_left(w, now_ns)) {
    for (auto& [uid, other] : watches_)
      if (w.hang.of_hang && other->hang.of_hang == w.hang.of_hang) end_job(*other, now_ns);
    return end_job(w, now_ns);
  }
  // Ranks that leave a communicator that hangs have not been helped.
  if (w.comm.ranks_down() > 0 && !anybody_is_inside(w.comm))
    writer_.book().end(w.hang.incident, now_ns);
  else
    writer_.book().resolve(w.hang.incident, now_ns);
  forget_hang(w, now_ns);
}

void HangAnalysis::end_job(Watch& w, Nanoseconds now_ns) {
  w.hang.over_ns = now_ns;
  if (!w.hang.stuck) return;
  writer_.book().end(w.hang.incident, now_ns);
  forget_hang(w, now_ns);
}

void HangAnalysis::confirm_ending(const Watch& w, Nanoseconds now_ns) {
  Incident* const i = writer_.book().find(w.hang.incident);
  if (!i || i->state != VerdictState::suspected) return;
  bool certain = w.hang.alarm && w.hang.alarm->overdue;
  for (Culprit& c : i->culprits) {
    const RankModel* const r = w.comm.rank(c.rank);
    if (!r || !r->process || !r->process->gone()) continue;
    absl::StrAppend(&c.reason, "; since then its process has gone");
    certain = true;
  }
  if (certain) writer_.book().confirm(i->handle, now_ns);
}

void HangAnalysis::forget_hang(Watch& w, Nanoseconds now_ns) {
  w.hang.incident = 0;
  w.hang.stuck = false;
  w.hang.alarm.reset();
  w.hang.released_ns = now_ns;
  w.hang.calls.clear();
}

Nanoseconds HangAnalysis::least_stall_ns() const {
  return seconds_to_ns(std::min({1.0, settings_.hard_evidence_s, settings_.hang_suspect_s}));
}

std::vector<Stall> HangAnalysis::find_stalls(std::vector<Watch*>& watches, Unheard& unheard, Nanoseconds now_ns) {
  const Nanoseconds least_ns = least_stall_ns();
  std::vector<Stall> out;
  for (const auto& [uid, w] : watches_) {
    const Communicator& comm = w->comm;
    if (!anybody_is_inside(comm) || w->hang.is_over(comm) || (!w->hang.stuck && now_ns - comm.moved_ns() < least_ns))
      continue;
    std::optional<HangView> view;
    if (const auto seen = seen_.find(uid); seen != seen_.end())
      view = std::move(seen->second);
    else
      view = view_hang(comm, processes_, settings_);
    if (!view) continue;
    const auto is = [&](Life life) { return view->ranks.any([&](const RankProgress& p) { return p.life == life; }); };
    if ((is(Life::gone) || is(Life::left)) && processes_.departures().silent(uid, first_silent_ns(comm, *view)))
      view = view_hang(comm, processes_, settings_);
    if (!view) continue;
    if (!w->hang.stuck && view->stall_ns < least_ns) {
      unheard.emplace(uid, &comm);
      continue;
    }
    Stall& s = out.emplace_back();
    watches.push_back(w.get());
    s.comm = &comm;
    s.view = *std::move(view);
    s.calls = p2p_waits(comm, processes_);
    if (!s.view.p2p) {
      s.finding = locate_hang(comm, s.view, settings_, now_ns);
      s.located = true;
    } else if (std::any_of(s.calls.begin(), s.calls.end(),
                           [](const P2pWait& c) { return c.side == PeerSide::inside; })) {
      for (const P2pWait& c : s.calls)
        if (c.side != PeerSide::inside) s.view.ranks.at(static_cast<size_t>(c.waiter.value)).waits_outside = true;
      s.finding = locate_inside(comm, s.view, settings_, now_ns);
      s.located = true;
      std::vector<bool> named(comm.ranks().size()), waits(comm.ranks().size());
      for (const Culprit& c : s.finding.culprits) named[c.rank.value] = true;
      for (const P2pWait& c : s.calls) waits[c.waiter.value] = true;
      for (size_t r = 0; r < waits.size(); ++r)
        if (waits[r] && !named[r]) s.finding.victims.push_back(Rank{static_cast<int32_t>(r)});
    }
  }
  return out;
}

void HangAnalysis::add_unexplained(const std::vector<Stall>& stalls, const std::vector<Watch*>& watches,
                                   std::vector<Cause>& causes) const {
  std::vector<bool> explained(stalls.size());
  for (const Cause& c : causes)
    for (size_t i : c.stalls) explained[i] = true;
  for (size_t i = 0; i < stalls.size(); ++i) {
    // What Send and Recv wait for may be a bubble: where anything is unknown there is no verdict.
    if (explained[i] || !stalls[i].located || stalls[i].view.p2p || !watches[i]->hang.alarm) continue;
    Cause c;
    c.home = i;
    c.stalls = {i};
    c.complete = false;
    causes.push_back(std::move(c));
  }
}

bool HangAnalysis::suspicious(const Cause& cause, const Finding& f, const std::vector<Stall>& stalls,
                              const std::vector<Watch*>& watches, Nanoseconds now_ns) const {
  const Stall& home = stalls[cause.home];
  if (!EndingJobs::anybody_speaks(*home.comm, now_ns)) return false;
  if (may_yet_speak(*home.comm, cause, f, processes_)) return false;
  if (may_have_followed(*home.comm, home.view, f, processes_)) return false;
  if (f.hard) return home.view.stall_ns >= seconds_to_ns(settings_.hard_evidence_s);
  if (blames_who_was_lost(home.view, f)) return false;  // until that is hard evidence
  const Nanoseconds suspect_ns = seconds_to_ns(settings_.hang_suspect_s);
  const Nanoseconds unsure_ns = std::max(seconds_to_ns(settings_.p2p_hang_suspect_s), suspect_ns);
  const bool awaited =
      std::any_of(cause.stalls.begin(), cause.stalls.end(), [&](size_t i) { return stalls[i].view.awaited; });
  Nanoseconds timeout_ns = watches[cause.home]->hang.detector.timeout_ns(*home.comm, home.view, settings_, awaited);
  if (((cause.calls || home.view.p2p) && !cause.complete && !cause.fell_silent) || cause.outdated)
    timeout_ns = std::max(timeout_ns, unsure_ns);
  if (cause.barrier) timeout_ns = std::max(timeout_ns, seconds_to_ns(settings_.barrier_hang_suspect_s));
  if (cause.kind == CauseKind::inside && !cause.complete)  // nobody knows what it waits for
    timeout_ns = std::max({timeout_ns, unsure_ns, seconds_to_ns(settings_.hang_warmup_suspect_s)});
  if (home.view.stall_ns < timeout_ns) return false;
  // Whoever is waited for may be busy elsewhere; but not for ever.
  const bool still = processes_.newest_ns() - cause.moved_ns >= suspect_ns;
  return std::any_of(cause.stalls.begin(), cause.stalls.end(), [&](size_t i) {
    const Watch& w = *watches[i];
    if (!w.hang.alarm || w.hang.alarm->early) return false;
    // One that waited for another cause until just now has its time before it.
    const Nanoseconds stall_ns = w.hang.victim
                                     ? stalls[i].view.stall_ns
                                     : std::min(stalls[i].view.stall_ns, processes_.newest_ns() - w.hang.released_ns);
    return stall_ns >= (still ? suspect_ns : unsure_ns);
  });
}

// Mismatched operations leave the steps of connections apart: what hangs afterwards is their consequence.
bool HangAnalysis::follows_mismatch(const Cause& cause, const Finding& f, const std::vector<Watch*>& watches,
                                    Nanoseconds now_ns) {
  Watch* origin = nullptr;
  Incident* m = nullptr;
  const auto consider = [&](Watch& w) {
    Incident* i = writer_.book().find(w.mismatch.incident);
    if (!i || !is_open(i->state) || (m && m->id <= i->id)) return;
    m = i;
    origin = &w;
  };
  for (size_t i : cause.stalls) consider(*watches[i]);
  // And on other communicators too: a rank that skips a call, or makes one too many, comes to all others at the wrong
  // time.
  std::vector<const ProcessModel*> blamed;
  const auto blame = [&](Rank rank) {
    if (const RankModel* r = watches[cause.home]->comm.rank(rank); r && r->process) blamed.push_back(r->process);
  };
  for (const Culprit& c : f.culprits) blame(c.rank);
  for (Rank r : f.candidates) blame(r);
  if (blamed.size() > culprits_max) blamed.resize(culprits_max);
  for (const ProcessModel* process : blamed)
    for (const ProcessModel::Membership& member : process->memberships) {
      const auto it = watches_.find(member.comm);
      if (it == watches_.end() || it->second->mismatch.incident == 0) continue;
      Watch& w = *it->second;
      const Incident* i = writer_.book().find(w.mismatch.incident);
      if (!i || now_ns - w.mismatch.seen_ns > mismatch_follows_ns) continue;
      const bool named = std::any_of(i->culprits.begin(), i->culprits.end(),
                                     [&](const Culprit& c) { return c.rank == member.rank; }) ||
                         std::find(i->candidates.begin(), i->candidates.end(), member.rank) != i->candidates.end();
      if (named) consider(w);
    }
  if (!m) return false;
  Watch& w = *origin;
  const bool first = w.mismatch.seen_ns != now_ns && m->hangs_since.value == 0;
  w.mismatch.seen_ns = now_ns;
  if (first) {
    m->hangs_since = f.op;
    m->evidence.push_back({.kind = EvidenceKind::hangs_since, .value = static_cast<double>(f.op.value)});
    writer_.book().changed(m->handle);
  }
  return true;
}

void HangAnalysis::report(const Cause& cause, Finding& f, const HangView& view, const std::vector<Watch*>& watches,
                          Nanoseconds now_ns) {
  Watch& home = *watches[cause.home];
  // One incident, wherever it was noticed first: the oldest of those that wait for it, unless they have a cause of
  // their own.
  for (size_t i : cause.stalls) {
    Watch& w = *watches[i];
    if (&w == &home || w.hang.incident == 0 || w.hang.located_ns == now_ns) continue;
    if (home.hang.incident == 0) {
      home.hang.incident = w.hang.incident;
    } else {
      const uint64_t younger = std::max(home.hang.incident, w.hang.incident);
      home.hang.incident = std::min(home.hang.incident, w.hang.incident);
      writer_.book().resolve(younger, now_ns);
    }
    w.hang.incident = 0;
    w.hang.stuck = false;
    w.hang.calls.clear();
  }
  if (!home.hang.stuck) home.hang.moved_ns = home.comm.moved_ns();
  home.hang.stuck = true;
  home.hang.key = f.key();
  if (!may_be_pause(f))
    for (size_t i : cause.stalls) watches[i]->hang.held_by_fault_ns = watches[i]->comm.moved_ns();
  if (follows_mismatch(cause, f, watches, now_ns)) {
    if (home.hang.incident != 0) writer_.book().resolve(std::exchange(home.hang.incident, 0), now_ns);
    return;
  }
  if (home.hang.incident == 0)
    home.hang.incident = writer_.open(home.comm, f, home.comm.moved_ns(), now_ns);
  else if (view.p2p || view.stall_ns >= least_stall_ns())
    writer_.update(home.hang.incident, home.comm, f, now_ns);
  else
    return;  // what has just moved keeps its verdict
  // Time is no evidence of a fault: what ends by itself was a pause, however long, and the next one may be as long.
  // Whoever is waited for and still moves elsewhere is no more than busy, and gets as much time again.
  const Nanoseconds confirm_ns = seconds_to_ns(settings_.hang_confirm_s);
  const bool busy = processes_.newest_ns() - cause.moved_ns < confirm_ns && view.stall_ns < 2 * confirm_ns;
  const bool overdue = !busy && std::any_of(cause.stalls.begin(), cause.stalls.end(), [&](size_t i) {
    return watches[i]->hang.alarm && watches[i]->hang.alarm->overdue;
  });
  if (f.hard || overdue) writer_.book().confirm(home.hang.incident, now_ns);
}

bool HangAnalysis::may_wait_for(const KnownInit& m, const Cause& cause, const std::vector<Stall>& stalls) const {
  const Initialization& initialization = inits_.all().at(m.key);
  std::set<const ProcessModel*> held;
  for (size_t i : cause.stalls)
    for (const RankModel& r : stalls[i].comm->ranks())
      if (r.process && m.may_miss(*r.process)) held.insert(r.process);
  for (const auto& [rank, r] : initialization.ranks) held.erase(r.process);
  return held.size() + initialization.ranks.size() >= static_cast<size_t>(m.key.rank_count);
}

// Who waits for an initialization that has no cause elsewhere has the timeout of initializations: they are told of
// together with it.
void HangAnalysis::take_out_inits(std::vector<Cause>& causes, const std::vector<Stall>& stalls) {
  links_ = {};
  for (const Cause& c : causes) {
    if (c.kind != CauseKind::initialization) continue;
    std::vector<VictimComm>& waiting = links_.waiting[initializations_[c.initialization].key];
    for (size_t i : c.stalls)
      waiting.push_back({stalls[i].comm->uid(), stalls[i].comm->name(), stalls[i].comm->rank_count(), stalls[i].view.op});
  }
  std::erase_if(causes, [](const Cause& c) { return c.kind == CauseKind::initialization; });
}

void HangAnalysis::settle(Nanoseconds now_ns) {
  settle_all(now_ns);
  seen_.clear();
}

void HangAnalysis::settle_all(Nanoseconds now_ns) {
  const bool any = alarmed_ || std::any_of(watches_.begin(), watches_.end(), [](const auto& w) {
                     return w.second->hang.alarm || w.second->hang.stuck || w.second->hang.victim;
                   });
  if (!any) links_ = {};
  if (!any && jobs_.any_marked()) jobs_.mark(now_ns);
  if (!any || (!alarmed_ && now_ns - settled_ns_ < relocate_every_ns)) return;
  alarmed_ = false;
  settled_ns_ = now_ns;
  bool learnt = jobs_.forget_moved();
  absl::flat_hash_map<CommUid, Nanoseconds> unheard_ns;  // timeouts of those that stood still before they were heard
  for (const auto& [uid, view] : seen_)
    if (const Watch& w = *watches_.at(uid); w.comm.moved_ns() < w.comm.first_heard_ns())
      unheard_ns.emplace(uid, w.hang.detector.timeout_ns(w.comm, view, settings_, view.awaited));
  learnt |= jobs_.stood_before(unheard_ns);
  learnt |= jobs_.spread_losses();
  if (learnt) seen_.clear();  // they knew less
  std::vector<Watch*> watches;
  Unheard unheard;
  const std::vector<Stall> stalls = find_stalls(watches, unheard, now_ns);
  const FindCommunicator find = [this](CommUid uid) {
    const auto it = watches_.find(uid);
    return it == watches_.end() ? nullptr : &it->second->comm;
  };
  initializations_ = waiting_inits(inits_, processes_, watches_, init_waits_ns, now_ns);
  std::vector<InitWait> waits;
  for (const KnownInit& m : initializations_) waits.push_back(m.wait);
  const WaitGraph graph(stalls, unheard, waits, processes_, find);
  std::vector<Cause> causes = find_causes(graph, stalls);
  add_unexplained(stalls, watches, causes);
  take_out_inits(causes, stalls);

  std::vector<bool> is_home(stalls.size());
  for (const Cause& cause : causes) is_home[cause.home] = true;
  std::vector<std::pair<const Cause*, Finding>> reported;
  const EndingJobs::Ending ending = jobs_.find(stalls, watches);
  const auto is_in = [&](const absl::flat_hash_set<CommUid>& jobs) {
    return [&](size_t i) { return watches[i]->hang.of_hang && jobs.contains(*watches[i]->hang.of_hang); };
  };
  for (Cause& cause : causes) {
    for (size_t m = 0; m < initializations_.size(); ++m)
      if (!initializations_[m].all_known &&
          std::find(cause.initializations.begin(), cause.initializations.end(), m) == cause.initializations.end() &&
          may_wait_for(initializations_[m], cause, stalls))
        cause.initializations.push_back(m);
    Finding f = CauseFindings(watches_, processes_, initializations_, settings_).describe(cause, stalls, now_ns);
    const bool known = std::any_of(cause.stalls.begin(), cause.stalls.end(), [&](size_t i) {
      return watches[i]->hang.incident != 0 && (i == cause.home || !is_home[i]);
    });
    // It had not been found before processes began to leave.
    if (std::any_of(cause.stalls.begin(), cause.stalls.end(), is_in(ending.over))) continue;
    if (!known && !f.hard && std::any_of(cause.stalls.begin(), cause.stalls.end(), is_in(ending.begun))) continue;
    if (!known && !suspicious(cause, f, stalls, watches, now_ns)) continue;
    watches[cause.home]->hang.located_ns = now_ns;  // it has a cause of its own
    reported.emplace_back(&cause, std::move(f));
  }
  std::vector<bool> victim(stalls.size());
  for (auto& [cause, f] : reported) {
    report(*cause, f, stalls[cause->home].view, watches, now_ns);
    Watch& home = *watches[cause->home];
    for (size_t m : cause->initializations) {
      const InitKey& key = initializations_[m].key;
      links_.victims.try_emplace(key, home.hang.incident != 0 ? home.hang.incident : home.mismatch.incident);
    }
    if (cause->calls || stalls[cause->home].view.p2p) {
      const std::vector<P2pWait>& calls = stalls[cause->home].calls;
      home.hang.calls.assign(calls.begin(), calls.begin() + std::min(calls.size(), calls_kept_max));
    }
    for (size_t i : cause->stalls) victim[i] = victim[i] || i != cause->home;
  }
  size_t next = 0;  // both are in the order of the communicators
  for (const auto& [uid, w] : watches_) {
    const bool stands = next < watches.size() && watches[next] == w.get();
    const bool is = stands && (victim[next] || (w->hang.victim && is_in(ending.over)(next)));
    next += stands;
    if (w->hang.victim && !is) w->hang.released_ns = now_ns;
    w->hang.victim = is;
    if (w->hang.stuck && w->hang.of_hang && ending.over.contains(*w->hang.of_hang)) confirm_ending(*w, now_ns);
  }
  jobs_.mark(now_ns);
}

}  // namespace ccld::decision
