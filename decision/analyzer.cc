#include "decision/analyzer.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "decision/detect/hang.h"
#include "decision/detect/mismatch.h"
#include "decision/detect/p2p.h"
#include "decision/detect/slow.h"
#include "decision/locate/across.h"
#include "decision/locate/paper.h"
#include "decision/locate/slow.h"
#include "decision/model/communicator.h"
#include "decision/model/incident_book.h"
#include "decision/model/init_book.h"
#include "decision/model/processes.h"

namespace ccld::decision {
namespace {

constexpr size_t victims_sampled = 16;
constexpr size_t also_seen_max = 8;  // rows for each culprit
constexpr Nanoseconds forget_every_ns = 10 * ns_per_s;
// Once a hang is known it is looked at again at this pace, for confirmation and better evidence.
constexpr Nanoseconds relocate_every_ns = 500 * ns_per_ms;

bool same_culprits(const std::vector<Culprit>& a, const std::vector<Culprit>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].rank != b[i].rank || a[i].peer != b[i].peer || a[i].component != b[i].component ||
        a[i].channel != b[i].channel || a[i].reason != b[i].reason)
      return false;
  return true;
}

// Only new mismatches by ranks that are known already.
bool is_follow_up(const Incident& known, const Finding& f) {
  const auto listed = [&](Rank r) {
    return std::any_of(known.culprits.begin(), known.culprits.end(), [&](const Culprit& c) { return c.rank == r; }) ||
           std::find(known.candidates.begin(), known.candidates.end(), r) != known.candidates.end();
  };
  return std::all_of(f.culprits.begin(), f.culprits.end(), [&](const Culprit& c) { return listed(c.rank); }) &&
         std::all_of(f.candidates.begin(), f.candidates.end(), listed);
}

}  // namespace

struct Analyzer::State {
  struct Watch {
    Watch(CommUid uid, const Settings& s) : comm(uid, s), slow(s) {}
    Communicator comm;
    HangDetector hang_detector;
    SlowDetector slow;

    uint64_t hang_incident = 0;
    Finding hang_finding;  // of the last look, valid while stuck
    bool stuck = false;
    bool stuck_in_p2p = false;         // and it is in Send and Recv
    Nanoseconds located_ns = 0;        // last look
    Nanoseconds moved_at_hang_ns = 0;  // movement known when it was suspected
    bool hang_confirmed = false;

    uint64_t mismatch_incident = 0;
    Nanoseconds mismatch_ns = 0;  // last mismatch or hang that follows from it
    uint64_t mismatches = 0;

    uint64_t slow_incident = 0;
  };

  explicit State(const Settings& s) : settings(s), processes(settings), book(settings), inits(settings) {}

  const Settings settings;
  ProcessTable processes;
  std::map<CommUid, std::unique_ptr<Watch>> watches;
  IncidentBook book;
  InitBook inits;
  Nanoseconds forgot_ns = 0;

  Watch* watch(CommUid uid) {
    auto it = watches.find(uid);
    if (it != watches.end()) return it->second.get();
    if (uid.value == 0) return nullptr;
    if (watches.size() >= settings.communicators_max) {
      auto oldest = std::min_element(watches.begin(), watches.end(), [](const auto& a, const auto& b) {
        return a.second->comm.heard_ns() < b.second->comm.heard_ns();
      });
      remove(oldest, oldest->second->comm.heard_ns());
    }
    return watches.emplace(uid, std::make_unique<Watch>(uid, settings)).first->second.get();
  }

  std::map<CommUid, std::unique_ptr<Watch>>::iterator remove(std::map<CommUid, std::unique_ptr<Watch>>::iterator it,
                                                             Nanoseconds now_ns) {
    Watch& w = *it->second;
    for (uint64_t id : {w.hang_incident, w.mismatch_incident, w.slow_incident}) book.resolve(id, now_ns);
    for (const RankModel& r : w.comm.ranks())
      if (r.process) std::erase_if(r.process->memberships, [&](const auto& m) { return m.comm == w.comm.uid(); });
    return watches.erase(it);
  }

  // ---- incidents -------------------------------------------------------------------------------------------------

  void fill(Incident& i, const Communicator& comm, const Finding& f, Nanoseconds now_ns) {
    i.fault = f.fault;
    i.rules = settings.rules;
    i.job = comm.job();
    i.comm = comm.uid();
    i.comm_name = comm.name();
    i.rank_count = comm.rank_count();
    i.op = f.op;
    i.replay = f.replay;
    i.title = f.title;
    i.signature = f.signature;
    i.culprits = f.culprits;
    i.candidates = f.candidates;
    i.victim_count = static_cast<uint32_t>(f.victims.size());
    i.victim_sample.assign(f.victims.begin(), f.victims.begin() + std::min(f.victims.size(), victims_sampled));
    i.confidence = f.confidence;
    i.evidence = f.evidence;
    for (size_t c = 0; c < f.culprits.size(); ++c) {
      const auto same_rank = [&](const Culprit& other) { return other.rank == f.culprits[c].rank; };
      if (std::none_of(f.culprits.begin(), f.culprits.begin() + c, same_rank)) quote(i, comm, f.culprits[c], now_ns);
    }
    i.next_step = f.next_step;
    if (!i.culprits.empty() && i.located_ns == 0) i.located_ns = now_ns;
  }

  // What else was seen at a culprit's process, host, GPU and network.
  static void quote(Incident& i, const Communicator& comm, const Culprit& c, Nanoseconds now_ns) {
    const RankModel* r = comm.rank(c.rank);
    if (!r || !r->process) return;
    std::vector<AlsoSeen> seen;
    std::vector<std::string> net_names;
    for (const NetConnection& n : r->connections)
      if (std::find(net_names.begin(), net_names.end(), n.net_name) == net_names.end()) net_names.push_back(n.net_name);
    if (r->process->metrics) seen = also_seen(*r->process->metrics, c.gpu_bus_id, net_names, now_ns);
    for (AlsoSeen& row : also_seen(r->process->net_queues, now_ns - r->process->net_queues_ns)) seen.push_back(std::move(row));
    size_t quoted = 0;
    for (AlsoSeen& row : seen) {
      if (quoted++ == also_seen_max) break;
      i.evidence.push_back({c.rank.value, absl::StrCat("also seen there: ", row.what), row.value, std::move(row.unit)});
    }
  }

  uint64_t open(const Communicator& comm, const Finding& f, Nanoseconds onset_ns, Nanoseconds now_ns) {
    Incident i;
    fill(i, comm, f, now_ns);
    i.onset_ns = onset_ns;
    i.suspected_ns = now_ns;
    return book.open(std::move(i)).id;
  }

  // The incident says what the newest finding says; it is handed out again only if that changes what a reader would do.
  void update(uint64_t id, const Communicator& comm, const Finding& f, Nanoseconds now_ns) {
    Incident* i = book.find(id);
    if (!i) return;
    const bool news = i->fault != f.fault || !same_culprits(i->culprits, f.culprits) || i->candidates != f.candidates;
    fill(*i, comm, f, now_ns);
    if (news) book.changed(id);
  }

  // ---- hang ------------------------------------------------------------------------------------------------------

  void look_for_hang(Watch& w, Nanoseconds now_ns) {
    const std::optional<HangView> view = w.hang_detector.check(w.comm, processes, settings, now_ns);
    if (view && (!w.stuck || now_ns - w.located_ns >= relocate_every_ns)) {
      Finding f = settings.rules == RuleSet::paper ? locate_hang_paper(w.comm, *view, settings, now_ns)
                                                   : locate_hang(w.comm, *view, settings, now_ns);
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

  void look_for_p2p_hang(Watch& w, Nanoseconds now_ns) {
    if (settings.rules == RuleSet::paper || (w.comm.ranks_in_p2p() == 0 && !w.stuck)) return;
    if (now_ns - w.located_ns < relocate_every_ns) return;
    w.located_ns = now_ns;
    std::optional<Finding> f = find_p2p_hang(
        w.comm, processes, settings, now_ns,
        [this](const ProcessModel& process, CommUid except) { return moved_elsewhere(process, except); });
    if (f) {
      w.hang_finding = *std::move(f);
      w.stuck = w.stuck_in_p2p = true;
    } else if (w.stuck) {
      end_hang(w, now_ns);
    }
  }

  Nanoseconds moved_elsewhere(const ProcessModel& process, CommUid except) const {
    Nanoseconds moved_ns = 0;
    for (const ProcessModel::Membership& m : process.memberships) {
      const auto it = watches.find(m.comm);
      if (m.comm == except || it == watches.end()) continue;
      if (const RankModel* r = it->second->comm.rank(m.rank)) moved_ns = std::max(moved_ns, r->moved_ns);
    }
    return moved_ns;
  }

  // The operation that hung, or a later one, moves again.
  void movement_resumed(Watch& w, Nanoseconds now_ns) {
    // A rank that only calls further operations, or a part that still creeps, has not ended the hang.
    const std::optional<HangView> view = view_hang(w.comm, processes);
    const bool same = view && (view->replay == 0 && w.hang_finding.replay == 0 ? view->op <= w.hang_finding.op
                                                                                : view->key() == w.hang_finding.key());
    if (same) {
      w.moved_at_hang_ns = w.comm.moved_ns();
      return;
    }
    end_hang(w, now_ns);
  }

  void end_hang(Watch& w, Nanoseconds now_ns) {
    const bool fault = w.hang_confirmed || w.hang_finding.fault != FaultClass::h1_not_entered;
    if (fault) w.hang_detector.forget_pause();
    book.resolve(w.hang_incident, now_ns);
    w.hang_incident = 0;
    w.hang_confirmed = false;
    w.stuck = w.stuck_in_p2p = false;
  }

  // After all communicators were looked at: causes get incidents, victims are attached to them.
  void settle_hangs(Nanoseconds now_ns) {
    absl::flat_hash_map<CommUid, StuckComm> stuck;
    for (const auto& [uid, w] : watches)
      if (w->stuck) stuck[uid] = {&w->comm, &w->hang_finding};
    if (stuck.empty()) return;
    absl::flat_hash_map<CommUid, std::vector<const Communicator*>> victims;
    std::vector<Watch*> causes;
    for (const auto& [uid, s] : stuck) {
      Watch& w = *watches.find(uid)->second;
      const Cause cause = find_cause(uid, stuck);
      if (!cause.cycle.empty()) describe_cycle(*watches.find(cause.comm)->second, cause.cycle);
      if (cause.comm == uid) {
        causes.push_back(&w);
      } else {
        victims[cause.comm].push_back(&w.comm);
        // It had been taken for a cause before the real one was known.
        book.resolve(w.hang_incident, now_ns);
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

  void describe_cycle(Watch& w, const std::vector<CommUid>& cycle) {
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

  void settle_hang(Watch& w, Finding& f, Nanoseconds now_ns) {
    std::vector<Rank> sampled;
    for (Rank r : f.victims)
      if (r.value >= 0 && sampled.size() < victims_sampled) sampled.push_back(r);

    // Mismatched operations leave the steps of connections apart: what hangs afterwards is their consequence.
    if (Incident* m = book.find(w.mismatch_incident);
        m && m->state != VerdictState::resolved && settings.rules == RuleSet::measured) {
      const bool first =
          w.mismatch_ns != now_ns && std::none_of(m->evidence.begin(), m->evidence.end(),
                                                  [](const Evidence& e) { return e.what == hang_follows; });
      w.mismatch_ns = now_ns;
      if (first) {
        m->evidence.push_back({-1, hang_follows, static_cast<double>(f.op.value), "operation"});
        book.changed(m->id);
      }
      return;
    }
    if (w.hang_incident == 0) {
      w.hang_incident = open(w.comm, f, w.comm.moved_ns(), now_ns);
    } else {
      update(w.hang_incident, w.comm, f, now_ns);
    }
    if (Incident* i = book.find(w.hang_incident)) i->victim_sample = sampled;
    if (f.hard) {
      w.hang_confirmed = true;
      book.confirm(w.hang_incident, now_ns);
    }
  }
  static constexpr const char* hang_follows = "the communicator hangs since operation";

  // ---- communicators in the making -------------------------------------------------------------------------------

  void look_at_inits(Nanoseconds now_ns) {
    for (uint64_t id : inits.tidy(processes, now_ns)) book.resolve(id, now_ns);
    if (settings.rules == RuleSet::paper) return;
    for (auto& [key, making] : inits.all()) {
      const std::optional<Finding> f = find_endless_init(key, making, processes, settings, now_ns);
      if (!f) {
        if (making.incident != 0) book.resolve(std::exchange(making.incident, 0), now_ns);
        continue;
      }
      Incident* i = book.find(making.incident);
      const bool news = !i || !same_culprits(i->culprits, f->culprits) || i->candidates != f->candidates;
      if (!i) {
        Incident fresh;
        fresh.onset_ns = making.entered_ns;
        fresh.suspected_ns = now_ns;
        i = &book.open(std::move(fresh));
        making.incident = i->id;
      }
      const Communicator nameless(CommUid{}, settings);
      fill(*i, nameless, *f, now_ns);
      i->job = key.job;
      i->rank_count = key.rank_count;
      i->comm_name = absl::StrCat("in the making, hash ", absl::Hex(key.comm_hash, absl::kZeroPad16));
      if (news) book.changed(i->id);
      book.confirm(i->id, now_ns);
    }
  }

  // ---- inconsistency ---------------------------------------------------------------------------------------------

  void look_for_mismatch(Watch& w, Nanoseconds now_ns) {
    while (const std::optional<Finding> f = next_mismatch(w.comm, settings, now_ns)) {
      w.mismatch_ns = now_ns;
      ++w.mismatches;
      Incident* known = book.find(w.mismatch_incident);
      if (known && known->state != VerdictState::resolved && is_follow_up(*known, *f)) continue;
      if (w.hang_incident != 0) {
        // A hang that was suspected a moment ago has found its cause.
        update(w.hang_incident, w.comm, *f, now_ns);
        w.mismatch_incident = std::exchange(w.hang_incident, 0);
        w.hang_confirmed = false;
      } else {
        w.mismatch_incident = open(w.comm, *f, w.comm.moved_ns(), now_ns);
      }
      w.mismatches = 1;
      book.confirm(w.mismatch_incident, now_ns);
    }
    if (w.mismatch_incident != 0 && !w.stuck && now_ns - w.mismatch_ns > seconds_to_ns(settings.mismatch_clean_s)) {
      book.resolve(w.mismatch_incident, now_ns);
      w.mismatch_incident = 0;
    }
  }

  // ---- slow ------------------------------------------------------------------------------------------------------

  void look_for_slow(Watch& w, Nanoseconds now_ns) {
    for (const RoundEntry& e : w.comm.history().take_complete()) w.slow.add(w.comm, e, now_ns);
    for (const RoundEntry& e : w.comm.replays().take_complete()) w.slow.add(w.comm, e, now_ns);
    const SlowReport report = w.slow.advance(w.comm, w.slow_incident != 0, now_ns);
    switch (report.event) {
      case SlowEvent::none: return;
      case SlowEvent::resolve:
        book.resolve(w.slow_incident, now_ns);
        w.slow_incident = 0;
        return;
      case SlowEvent::suspect:
      case SlowEvent::confirm: break;
    }
    Incident* known = book.find(w.slow_incident);
    if (known && !known->culprits.empty() && !same_cause(known->culprits, report.finding.culprits)) {
      if (report.finding.culprits.empty()) return;
      book.resolve(w.slow_incident, now_ns);
      w.slow_incident = 0;
    }
    if (w.slow_incident == 0)
      w.slow_incident = open(w.comm, report.finding, report.onset_ns, now_ns);
    else
      update(w.slow_incident, w.comm, report.finding, now_ns);
    if (report.event == SlowEvent::confirm) book.confirm(w.slow_incident, now_ns);
  }

  // ---- memory ----------------------------------------------------------------------------------------------------

  void forget(Nanoseconds now_ns) {
    if (now_ns - forgot_ns < forget_every_ns) return;
    forgot_ns = now_ns;
    for (auto it = watches.begin(); it != watches.end();) {
      const Communicator& c = it->second->comm;
      const bool ended =
          c.rank_count_known() && c.ranks_down() == c.rank_count() && now_ns - c.heard_ns() > forget_every_ns;
      const bool silent = now_ns - c.heard_ns() > seconds_to_ns(settings.forget_s);
      it = ended || silent ? remove(it, now_ns) : std::next(it);
    }
    processes.forget(now_ns);
  }
};

Analyzer::Analyzer(const Settings& settings) : state_(std::make_unique<State>(settings)) {}
Analyzer::~Analyzer() = default;

void Analyzer::apply(const Batch& batch, Nanoseconds now_ns) {
  ProcessModel* process = state_->processes.heard(batch, now_ns);
  if (!process) return;
  for (const Payload& payload : batch.payloads) {
    std::visit(
        [&](const auto& m) {
          using T = std::decay_t<decltype(m)>;
          if constexpr (std::is_same_v<T, AgentHealth>) {
            state_->processes.health(*process, m, now_ns);
          } else if constexpr (std::is_same_v<T, CommInit>) {
            state_->inits.heard(m, *process, now_ns);
          } else if constexpr (std::is_same_v<T, Metrics>) {
            ProcessTable::metrics(*process, m, now_ns);
          } else if constexpr (std::is_same_v<T, NetQueues>) {
            ProcessTable::net_queues(*process, m, now_ns);
          } else if constexpr (std::is_same_v<T, ControlState>) {
            ProcessTable::control(*process, m);
          } else if (State::Watch* w = state_->watch(m.comm)) {
            if constexpr (std::is_same_v<T, CommUp>) {
              w->comm.up(m, *process, now_ns);
              state_->inits.up(m, *process, now_ns);
            }
            if constexpr (std::is_same_v<T, CommDown>) w->comm.down(m, *process, now_ns);
            if constexpr (std::is_same_v<T, Rounds>) w->comm.rounds(m, *process, now_ns);
            if constexpr (std::is_same_v<T, P2pRounds>) w->comm.p2p_rounds(m, *process, now_ns);
            if constexpr (std::is_same_v<T, InFlight>) w->comm.in_flight(m, *process, now_ns);
          }
        },
        payload);
  }
}

std::vector<Incident> Analyzer::advance(Nanoseconds now_ns) {
  State& s = *state_;
  for (auto& [uid, w] : s.watches) {
    if (s.settings.rules == RuleSet::measured) s.look_for_mismatch(*w, now_ns);
    s.look_for_slow(*w, now_ns);
    s.look_for_hang(*w, now_ns);
  }
  s.settle_hangs(now_ns);
  s.look_at_inits(now_ns);
  s.forget(now_ns);
  return s.book.take_changed();
}

StatusView Analyzer::status(Nanoseconds now_ns) const {
  StatusView view;
  view.now_ns = now_ns;
  view.incidents_open = state_->book.open_count();
  for (const auto& [uid, w] : state_->watches) {
    const Communicator& c = w->comm;
    CommStatus s;
    s.comm = uid;
    s.job = c.job();
    s.name = c.name();
    s.rank_count = c.rank_count();
    s.entered_max = c.entered_max();
    s.completed_min = c.completed_min();
    s.rounds = c.history().rounds();
    s.replays = c.replays().rounds();
    s.parent = c.parent();
    s.in_flight = c.ranks_in_flight() > 0;
    Nanoseconds oldest_ns = 0;
    for (const RankModel& r : c.ranks()) {
      if (!r.process) continue;
      ++s.ranks_seen;
      RankStatus rank;
      rank.rank = r.rank;
      rank.host = r.host;
      rank.pid = r.process->id.pid;
      rank.cuda_device = r.cuda_device;
      rank.gpu_bus_id = r.gpu_bus_id;
      rank.entered = r.entered;
      rank.launched = r.launched;
      rank.completed = r.completed;
      rank.telemetry_age_ns = now_ns - r.process->heard_ns;
      rank.moved_age_ns = now_ns - r.moved_ns;
      rank.up = r.up && !r.down;
      rank.process_state = r.process->state;
      rank.watched = !r.not_watched && !r.process->probe_stopped;
      rank.p2p_in_flight = std::max<uint32_t>(r.last.p2p_total, static_cast<uint32_t>(r.last.p2p.size()));
      if (!r.last.p2p.empty())
        rank.p2p_age_ns = static_cast<Nanoseconds>(r.last.p2p.front().enter_age_ms) * ns_per_ms + (now_ns - r.sampled_ns);
      rank.p2p_rounds = r.p2p_rounds;
      for (const InFlightOp& o : r.last.operations)
        if (o.replay != 0 && o.begun && rank.replay == RoundKey{}) rank.replay = o.key();
      s.p2p_in_flight += rank.p2p_in_flight;
      s.p2p_rounds += rank.p2p_rounds;
      s.p2p_age_ns = std::max(s.p2p_age_ns, rank.p2p_age_ns);
      s.ranks_not_watched += rank.watched ? 0 : 1;
      s.ranks.push_back(std::move(rank));
      if (!r.in_flight()) continue;
      const OpSeq oldest = r.oldest_in_flight();
      if (s.oldest_op == OpSeq{} || oldest < s.oldest_op) s.oldest_op = oldest, oldest_ns = 0;
      if (oldest != s.oldest_op) continue;
      for (const InFlightOp& o : r.last.operations)
        if (o.op == oldest)
          oldest_ns =
              std::max(oldest_ns, static_cast<Nanoseconds>(o.enter_age_ms) * ns_per_ms + (now_ns - r.sampled_ns));
    }
    if (s.in_flight) {
      s.oldest_signature = c.signature(s.oldest_op);
      s.oldest_age_ns = oldest_ns;
    }
    view.communicators.push_back(std::move(s));
  }
  for (const auto& [id, p] : state_->processes.all()) {
    ProcessStatus s;
    s.process = id;
    s.job = p->job;
    s.telemetry_age_ns = now_ns - p->heard_ns;
    s.batches = p->batches;
    s.lost_batches = p->lost_batches();
    s.health = p->health;
    s.metrics = p->metrics;
    s.net_queues = p->net_queues;
    s.control = p->control;
    s.probe_stopped = p->probe_stopped;
    view.processes.push_back(std::move(s));
  }
  for (const auto& [key, making] : state_->inits.all()) view.inits.push_back(init_status(key, making, now_ns));
  return view;
}

std::vector<Incident> Analyzer::incidents() const { return state_->book.all(); }

}  // namespace ccld::decision
