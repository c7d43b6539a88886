#include "decision/analysis/slowness.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/locate/host_or_gpu.h"
#include "decision/locate/slow.h"

namespace ccld::decision {
namespace {

// A communicator is late because of another one only if that one loses at least this part of the share of time.
constexpr double explained_part_min = 0.5;

bool of_connection(const Culprit& c) { return c.peer.has_value(); }

const ProcessModel* process_of(const Communicator& comm, Rank r) {
  const RankModel* m = comm.rank(r);
  return m ? m->process : nullptr;
}

bool blames(const Communicator& comm, const Finding& f, const ProcessModel* process) {
  return std::any_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) {
    return process_of(comm, c.rank) == process || (c.peer && process_of(comm, *c.peer) == process);
  });
}

bool is_late_rank(const Culprit& c) {
  return !c.peer && (c.component == Component::process || c.component == Component::gpu);
}

// Both ends of a slow connection are kept by it, so it explains that they are late elsewhere: only who is late there
// too may be so by itself.
bool blames_itself(const Communicator& comm, const Finding& f, const Culprit& here, const ProcessModel* process) {
  if (!is_late_rank(here)) return blames(comm, f, process);
  return std::any_of(f.culprits.begin(), f.culprits.end(),
                     [&](const Culprit& c) { return is_late_rank(c) && process_of(comm, c.rank) == process; });
}

bool is_member(const Communicator& comm, const ProcessModel* process) {
  return process && std::any_of(process->memberships.begin(), process->memberships.end(),
                                [&](const auto& m) { return m.comm == comm.uid(); });
}

// A proxy or a network device is one, whichever of its connections was noticed first.
bool of_device(const Culprit& c) { return c.component == Component::proxy || c.component == Component::nic; }

// A transfer of Send and Recv of which nothing but its duration is known: what it passes is not seen.
bool of_whole_transfer(const Finding& f, const Culprit& c) {
  return f.signature.function == abi::Function::send && c.component == Component::link && c.peer.has_value();
}

// A host is one, whichever of its ranks are in the communicator.
bool same_host(const Communicator& a, const Culprit& x, const Communicator& b, const Culprit& y) {
  if (x.component != Component::host || y.component != Component::host) return false;
  const ProcessModel *p = process_of(a, x.rank), *q = process_of(b, y.rank);
  return p && q && p->host == q->host;
}

bool is_end(const Communicator& comm, const Culprit& connection, const ProcessModel* process) {
  return process && connection.peer &&
         (process_of(comm, connection.rank) == process || process_of(comm, *connection.peer) == process);
}

// A process has one proxy for all that it sends and receives: what is slow on any of its connections may be it. A
// network device is one of several; that a transfer takes longer is all that is known of Send and Recv.
bool carried_by(const Communicator& a, const Finding& f, const Culprit& slow, const Communicator& b,
                const Culprit& device) {
  const bool may_be =
      device.component == Component::proxy ? !is_late_rank(slow) : of_device(device) && of_whole_transfer(f, slow);
  return may_be && is_end(a, slow, process_of(b, device.rank));
}

// They blame the same process, or the same connection or device, in whatever communicator.
bool same_culprit(const Communicator& a, const Finding& f, const Communicator& b, const Finding& g) {
  for (const Culprit& x : f.culprits) {
    for (const Culprit& y : g.culprits) {
      if (carried_by(a, f, x, b, y) || carried_by(b, g, y, a, x) || same_host(a, x, b, y)) return true;
      const ProcessModel* process = process_of(a, x.rank);
      if (!process || process != process_of(b, y.rank)) continue;
      if (of_device(x) && x.component == y.component) return true;
      if (of_connection(x) != of_connection(y)) continue;
      if (!of_connection(x) || process_of(a, *x.peer) == process_of(b, *y.peer)) return true;
    }
  }
  return false;
}

std::string comm_text(const Communicator& c) {
  return c.name().empty() ? absl::StrCat(absl::Hex(c.uid().value)) : c.name();
}

}  // namespace

void SlownessAnalysis::take(Watch& w, Nanoseconds now_ns) {
  w.comm.history().visit_complete([&](const RoundEntry& e) {
    if (settings_.rules != RuleSet::model) w.slow.add(w.comm, e, now_ns);
    iterations_.add(w, e, now_ns);
  });
  for (const RoundEntry& e : w.comm.replays().take_complete()) {
    if (settings_.rules != RuleSet::model) w.slow.add(w.comm, e, now_ns);
    iterations_.add(w, e, now_ns);
  }
}

void SlownessAnalysis::look(Watch& w, Nanoseconds now_ns) {
  take(w, now_ns);
  // Iterations need their operations in order and learn nothing from these.
  w.comm.history().visit_overdue(now_ns, [&](const RoundEntry& e) { if (settings_.rules != RuleSet::model) w.slow.add(w.comm, e, now_ns); });
  const bool open = w.slow_incident != 0;
  SlowReport report = w.slow.advance(w.comm, open, !holders_.empty(), now_ns);
  // Of Send and Recv the model of the whole job knows more: which connections carry the same, and their stages.
  if (report.event == SlowEvent::none && (!w.slow_p2p.used() || whatif_.judges(w.comm.job()))) return;
  SlowReport pairs = w.slow_p2p.advance(w.comm, open, now_ns);
  // What ended in one kind of traffic may go on in the other.
  if (report.event == SlowEvent::resolve && w.slow_p2p.streak() > 0) report.event = SlowEvent::none;
  if (pairs.event == SlowEvent::resolve && (w.slow.streak() > 0 || !w.slow_by_p2p)) pairs.event = SlowEvent::none;
  if (report.event == SlowEvent::resolve && w.slow_by_p2p) report.event = SlowEvent::none;
  const bool by_pairs = report.event == SlowEvent::none;
  if (by_pairs) report = std::move(pairs);
  if (settings_.rules == RuleSet::model) return;
  if (report.event == SlowEvent::none) return;
  w.slow_by_p2p = by_pairs;
  w.slow_report = std::move(report);
  reported_.push_back(&w);
}

Watch* SlownessAnalysis::cause_of(Watch& start) const {
  Watch* at = &start;
  std::vector<Watch*> path{at};
  while (true) {
    const Finding& f = at->slow_cause();
    Watch* next = nullptr;
    bool all = !f.culprits.empty();
    for (const Culprit& c : f.culprits) {
      const ProcessModel* process = process_of(at->comm, c.rank);
      Watch* here = nullptr;
      for (const auto& m : process ? process->memberships : std::vector<ProcessModel::Membership>{}) {
        const auto it = watches_.find(m.comm);
        if (it == watches_.end() || it->second.get() == at) continue;
        Watch& other = *it->second;
        if (other.slow_streak() == 0 || other.slow_cause().culprits.empty()) continue;
        if (blames_itself(other.comm, other.slow_cause(), c, process)) continue;
        if (other.slow_lost_share() < explained_part_min * at->slow_lost_share()) continue;
        here = &other;
        break;
      }
      all &= here != nullptr;
      if (!next) next = here;
    }
    if (!all || !next) return at;
    if (std::find(path.begin(), path.end(), next) != path.end())
      return *std::max_element(path.begin(), path.end(), [](const Watch* a, const Watch* b) {
        return a->slow_lost_share() < b->slow_lost_share();
      });
    path.push_back(next);
    at = next;
  }
}

Watch* SlownessAnalysis::same_cause_as(Watch& w) const {
  for (const Culprit& c : w.slow_report.finding.culprits) {
    for (const Rank r : {c.rank, c.peer.value_or(c.rank)}) {
      const ProcessModel* process = process_of(w.comm, r);
      if (!process) continue;
      for (const auto& m : process->memberships) {
        const auto it = watches_.find(m.comm);
        if (it == watches_.end() || it->second.get() == &w) continue;
        Watch& other = *it->second;
        if (other.slow_incident == 0 || other.slow_incident == w.slow_incident || other.slow_role != SlowRole::owner)
          continue;
        if (same_culprit(w.comm, w.slow_report.finding, other.comm, other.slow_report.finding)) return &other;
      }
    }
  }
  return nullptr;
}

Finding SlownessAnalysis::with_others(const Watch& owner) const {
  Finding f = owner.slow_report.finding;
  const auto it = holders_.find(owner.slow_incident);
  if (it == holders_.end()) return f;
  for (const Watch* w : it->second) {
    if (w == &owner) continue;
    f.victims_elsewhere += static_cast<uint32_t>(w->comm.rank_count());
    f.victim_comms.push_back({w->comm.uid(), w->comm.name(), w->comm.rank_count(), w->slow_report.finding.op});
    if (w->slow_role == SlowRole::same)
      add_evidence(f, -1, absl::StrCat("communicator ", comm_text(w->comm), " loses time by the same cause: its share"),
                   w->slow_lost_share() * 100, "%");
  }
  return f;
}

void SlownessAnalysis::hold(Watch& w, uint64_t id, SlowRole role) {
  w.slow_incident = id;
  w.slow_role = role;
  holders_[id].push_back(&w);
}

void SlownessAnalysis::detach(Watch& w, Nanoseconds now_ns) {
  const uint64_t id = std::exchange(w.slow_incident, 0);
  const SlowRole role = std::exchange(w.slow_role, SlowRole::owner);
  const auto it = holders_.find(id);
  if (it == holders_.end()) return;
  std::erase(it->second, &w);
  if (role != SlowRole::owner) return;
  // It goes on as long as another communicator says so.
  for (Watch* other : it->second) {
    if (other->slow_role != SlowRole::same) continue;
    other->slow_role = SlowRole::owner;
    return;
  }
  for (Watch* other : it->second) other->slow_incident = 0, other->slow_role = SlowRole::owner;
  holders_.erase(it);
  writer_.book().resolve(id, now_ns);
}

void SlownessAnalysis::attach(Watch& w, Watch& cause, bool victim, Nanoseconds now_ns) {
  if (w.slow_incident == cause.slow_incident) return;
  detach(w, now_ns);
  hold(w, cause.slow_incident, victim ? SlowRole::victim : SlowRole::same);
  joined_.insert(cause.slow_incident);
}

// Stages of links tell a proxy or a device from a wire; durations of transfers do not. And who blames all that the
// owner blames, and others besides, knows of two causes.
bool SlownessAnalysis::sees_more(const Watch& w, const Watch& owner) const {
  if (w.slow_report.event != SlowEvent::confirm) return false;
  const auto &all = w.slow_report.finding.culprits, &some = owner.slow_report.finding.culprits;
  const auto blamed_too = [&](const Culprit& known) {
    return std::any_of(all.begin(), all.end(), [&](const Culprit& c) {
      return is_late_rank(c) == is_late_rank(known) && process_of(w.comm, c.rank) == process_of(owner.comm, known.rank);
    });
  };
  const bool mixed = w.slow_report.finding.fault == FaultClass::s3_mixed_slow &&
                     owner.slow_report.finding.fault != FaultClass::s3_mixed_slow &&
                     std::all_of(some.begin(), some.end(), blamed_too);
  // A proxy explains several connections of its process, and none of them explains another one.
  const bool proxy_of_another = std::any_of(all.begin(), all.end(), [&](const Culprit& c) {
    const ProcessModel* process = process_of(w.comm, c.rank);
    return c.component == Component::proxy && std::all_of(some.begin(), some.end(), [&](const Culprit& known) {
             if (known.component == Component::proxy || !is_end(owner.comm, known, process)) return false;
             return !c.peer || !is_end(owner.comm, known, process_of(w.comm, *c.peer));
           });
  });
  return mixed || proxy_of_another || (owner.slow_by_p2p && !w.slow_by_p2p && !all.empty());
}

Watch* SlownessAnalysis::owner_of(uint64_t incident) const {
  const auto it = holders_.find(incident);
  if (it == holders_.end()) return nullptr;
  for (Watch* w : it->second)
    if (w->slow_role == SlowRole::owner) return w;
  return nullptr;
}

// The incident goes on in the terms of `w`.
void SlownessAnalysis::take_over(Watch& w, Watch& owner, Nanoseconds now_ns) {
  const uint64_t id = owner.slow_incident;
  detach(w, now_ns);
  owner.slow_role = SlowRole::same;
  hold(w, id, SlowRole::owner);
  writer_.update(id, w.comm, w.slow_report.finding, now_ns);
}

// Several late ranks next to a slow connection, all of them members of one other communicator that communicates slowly:
// that made them late.
void SlownessAnalysis::leave_out_kept_ranks(Watch& w) const {
  Finding& f = w.slow_report.finding;
  if (f.fault != FaultClass::s3_mixed_slow) return;
  const auto late = std::count_if(f.culprits.begin(), f.culprits.end(), is_late_rank);
  if (late < 2 || late == static_cast<std::ptrdiff_t>(f.culprits.size())) return;
  for (const auto& [uid, other] : watches_) {
    if (other.get() == &w || other->slow_streak() == 0) continue;
    const Finding& cause = other->slow_cause();
    if (cause.fault != FaultClass::s2_communication_slow || cause.culprits.empty()) continue;
    const bool keeps_all = std::all_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) {
      return !is_late_rank(c) || is_member(other->comm, process_of(w.comm, c.rank));
    });
    if (!keeps_all) continue;
    std::erase_if(f.culprits, is_late_rank);
    f.fault = FaultClass::s2_communication_slow;
    double shares = 0;
    for (const Culprit& c : f.culprits) shares += c.lost_time_share;
    for (Culprit& c : f.culprits)
      if (shares > 0) c.lost_time_share /= shares;
    add_evidence(f, -1, absl::StrCat("late ranks that communicator ", comm_text(other->comm), " keeps"),
                 static_cast<double>(late), "ranks");
    return;
  }
}

// Communicators that lose about as much by the same rank have a say in whether its host or its GPU is slow.
void SlownessAnalysis::weigh_late_ranks(Watch& w) const {
  // There a GPU takes its steps late, and nobody comes late.
  const auto no_late_ranks = [](const Finding& f) { return f.fault == FaultClass::s2_communication_slow; };
  if (no_late_ranks(w.slow_report.finding)) return;
  for (Culprit& c : w.slow_report.finding.culprits) {
    const ProcessModel* process = process_of(w.comm, c.rank);
    if (!process || !is_late_rank(c)) continue;
    std::vector<LateWord> words;
    const Communicator* contrary = nullptr;
    for (const ProcessModel::Membership& m : process->memberships) {
      const auto it = watches_.find(m.comm);
      if (it == watches_.end() || it->second.get() == &w) continue;
      const Watch& other = *it->second;
      if (other.slow_streak() == 0 || no_late_ranks(other.slow_cause())) continue;
      if (other.slow_lost_share() < explained_part_min * w.slow_lost_share()) continue;
      for (const Culprit& there : other.slow_cause().culprits) {
        if (!is_late_rank(there) || there.cuda_device != c.cuda_device || process_of(other.comm, there.rank) != process)
          continue;
        words.push_back({there.component, there.queued_part, other.slow_lost_share()});
        if (there.component != c.component) contrary = &other.comm;
      }
    }
    const Component component = host_or_gpu({c.component, c.queued_part, w.slow_lost_share()}, words);
    if (component == c.component) continue;
    c.component = component;
    absl::StrAppend(&c.reason,
                    component == Component::gpu ? ", for it waits for its GPU, which is busy in communicator "
                                                : ", but for little of that time: it launches late in communicator ",
                    comm_text(*contrary));
  }
}

void SlownessAnalysis::report(Watch& w, Nanoseconds now_ns) {
  leave_out_kept_ranks(w);
  weigh_late_ranks(w);
  const Finding& finding = w.slow_report.finding;
  Watch* cause = cause_of(w);
  if (cause != &w) {
    // Until the cause is sure, nobody is accused.
    if (cause->slow_incident != 0) attach(w, *cause, true, now_ns);
    return;
  }
  if (Watch* other = same_cause_as(w)) {
    if (!sees_more(w, *other)) return attach(w, *other, false, now_ns);
    take_over(w, *other, now_ns);
  } else if (w.slow_role == SlowRole::same) {
    Watch* owner = owner_of(w.slow_incident);
    const bool shared = owner && same_culprit(w.comm, finding, owner->comm, owner->slow_report.finding);
    if (shared && sees_more(w, *owner)) take_over(w, *owner, now_ns);
  }
  if (w.slow_incident != 0 && w.slow_role != SlowRole::owner) {
    const Incident* shared = writer_.book().find(w.slow_incident);
    if (w.slow_role == SlowRole::same && shared && shared->state != VerdictState::resolved) return;
    detach(w, now_ns);
  }
  Incident* known = writer_.book().find(w.slow_incident);
  if (known && !known->culprits.empty() && !same_cause(known->culprits, finding.culprits)) {
    if (finding.culprits.empty()) return;
    detach(w, now_ns);
  }
  if (w.slow_incident == 0) {
    // It is known since before what was usual was learnt.
    if (!finding.culprits.empty() && std::all_of(finding.culprits.begin(), finding.culprits.end(), [&](const Culprit& c) {
          return whatif_.blames(process_of(w.comm, c.rank)) || (c.peer && whatif_.blames(process_of(w.comm, *c.peer)));
        }))
      return;
    // That the iterations got longer was known: now it is known why.
    const uint64_t known_as = iterations_.explain(w);
    if (known_as != 0) writer_.update(known_as, w.comm, finding, now_ns);
    hold(w, known_as != 0 ? known_as : writer_.open(w.comm, finding, w.slow_report.onset_ns, now_ns), SlowRole::owner);
  } else
    joined_.insert(w.slow_incident);
  if (w.slow_report.event == SlowEvent::confirm) writer_.book().confirm(w.slow_incident, now_ns);
}

void SlownessAnalysis::settle(Nanoseconds now_ns) {
  if (reported_.empty()) return;
  // Who loses most speaks first.
  std::stable_sort(reported_.begin(), reported_.end(),
                   [](const Watch* a, const Watch* b) { return a->slow_lost_share() > b->slow_lost_share(); });
  for (Watch* w : reported_)
    if (w->slow_report.event == SlowEvent::resolve) detach(*w, now_ns);
  for (Watch* w : reported_)
    if (w->slow_report.event != SlowEvent::resolve) report(*w, now_ns);
  reported_.clear();
  for (uint64_t id : joined_) {
    const auto it = holders_.find(id);
    if (it == holders_.end()) continue;
    for (const Watch* owner : it->second) {
      if (owner->slow_role != SlowRole::owner) continue;
      writer_.update(id, owner->comm, with_others(*owner), now_ns);
    }
  }
  joined_.clear();
}

void SlownessAnalysis::drop(Watch& w, Nanoseconds now_ns) {
  std::erase(reported_, &w);
  detach(w, now_ns);
}

}  // namespace ccld::decision
