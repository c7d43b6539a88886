#include "decision/analyzer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "decision/analysis/call_records.h"
#include "decision/analysis/hangs.h"
#include "decision/analysis/incident_writer.h"
#include "decision/analysis/inits.h"
#include "decision/analysis/iterations.h"
#include "decision/analysis/job_ranks.h"
#include "decision/analysis/mismatches.h"
#include "decision/analysis/room.h"
#include "decision/analysis/stages.h"
#include "decision/analysis/status_view.h"
#include "decision/analysis/watch.h"
#include "decision/analysis/whatif_analysis.h"
#include "decision/paper/rules.h"

namespace ccld::decision {
namespace {

constexpr Nanoseconds forget_every_ns = 10 * ns_per_s;

}  // namespace

struct Analyzer::State {
  State(const Settings& s, Numbering numbering) : settings(s), writer(settings, std::move(numbering)) {
    if (s.rules == RuleSet::paper) paper.emplace(settings, watches, processes, writer);
  }

  const Settings settings;
  ProcessTable processes{settings};
  RankBudget budget{settings.memberships_max};
  Watches watches;
  absl::flat_hash_map<CommUid, Watch*> watch_of;  // every message asks
  IncidentWriter writer;
  JobRanks job_ranks;
  InitBook inits{settings};
  HangAnalysis hangs{settings, watches, processes, inits, writer};
  IterationAnalysis iterations{settings, watches, writer};
  WhatIfAnalysis whatif{settings, watches, writer, iterations};
  CallRecords calls;                // for people
  std::optional<PaperRules> paper;  // instead of the four above
  Nanoseconds forgot_ns = 0;
  uint64_t contradictions = 0;
  bool admits_new = true;
  LetGo let_go;

  // What a batch is about lies anywhere in memory: it is fetched while its process is looked up.
  void prefetch(const Batch& batch) const {
    constexpr size_t looked_max = 16;
    std::array<std::pair<const Watch*, Rank>, looked_max> found;
    size_t n = 0;
    for (const Payload& payload : batch.payloads) {
      const auto* const m = std::get_if<Rounds>(&payload);
      const auto it = m && n < looked_max ? watch_of.find(m->comm) : watch_of.end();
      if (it == watch_of.end()) continue;
      found[n++] = {it->second, m->rank};
      it->second->comm.prefetch();
    }
    for (size_t i = 0; i < n; ++i) found[i].first->comm.prefetch(found[i].second);
  }

  void last_operations(const ProcessModel& reporter, const AgentHealth& health) {
    for (const Sibling& s : health.siblings) {
      if (s.last_operations.empty()) continue;
      const ProcessModel* process = processes.lost_sibling(reporter, s);
      if (!process) continue;
      for (const LastOperations& last : s.last_operations)
        if (const auto it = watch_of.find(last.comm); it != watch_of.end())
          it->second->comm.last_operations(last, *process);
    }
  }

  Watch* watch(CommUid uid) {
    if (const auto it = watch_of.find(uid); it != watch_of.end()) return it->second;
    if (uid.value == 0) return nullptr;
    if (!admits_new || (watches.size() >= settings.communicators_max && let_go_communicators(at_once(), Worth::at_work) == 0)) {
      ++let_go.communicators_refused;
      return nullptr;
    }
    return watch_of[uid] = watches.emplace(uid, std::make_unique<Watch>(uid, settings, budget)).first->second.get();
  }

  // Several at a time, since a look at all of them is needed to choose.
  size_t at_once() const { return std::max<size_t>(1, settings.communicators_max / 64); }

  size_t let_go_communicators(size_t count, Worth up_to) {
    absl::flat_hash_set<CommUid> needed;
    writer.book().visit_open([&needed](const Incident& i) { needed.insert(i.comm); });
    const std::vector<CommUid> going = least_missed(watches, needed, count, up_to);
    for (const CommUid uid : going) {
      const auto it = watches.find(uid);
      remove(it, it->second->comm.heard_ns());
    }
    let_go.communicators += going.size();
    return going.size();
  }

  Watches::iterator remove(Watches::iterator it, Nanoseconds now_ns) {
    Watch& w = *it->second;
    for (uint64_t id : {w.hang.incident, w.mismatch.incident}) writer.book().end(id, now_ns);
    iterations.drop(w, now_ns);
    if (paper) paper->drop(w, now_ns);
    for (const RankModel& r : w.comm.ranks()) {
      if (!r.process) continue;
      std::erase_if(r.process->memberships, [&](const auto& m) { return m.comm == w.comm.uid(); });
      if (r.up && !r.down) --r.process->comms_up;
    }
    watch_of.erase(it->first);
    return watches.erase(it);
  }

  void take_rounds(Watch& w, Nanoseconds now_ns) {
    // Of the calls that are taken together one is measured: a look at all ranks for each would cost too much.
    bool measured = false;
    const auto add = [&](const RoundEntry& e) {
      iterations.add(w, e, now_ns);
      whatif.add(w.comm, e);
      calls.add(w.comm.uid(), e);
      w.call_history.add(1, std::exchange(measured, true) ? std::nullopt : call_times(e), now_ns);
    };
    w.comm.history().visit_complete(add);
    for (const RoundEntry& e : w.comm.replays().take_complete()) add(e);
  }

  void take(Watch& w, Nanoseconds now_ns) {
    if (paper)
      paper->take(w, now_ns);
    else
      take_rounds(w, now_ns);
  }

  void look(Nanoseconds now_ns) {
    for (auto& [uid, w] : watches) {
      look_for_mismatch(*w, writer, settings, now_ns);
      take_rounds(*w, now_ns);
      // Rounds of which some reports were lost still say where ranks wait.
      w->comm.history().visit_overdue(now_ns, [&](const RoundEntry& e) {
        whatif.add(w->comm, e);
        calls.add(uid, e);
        w->call_history.add(1, std::nullopt, now_ns);
      });
      w->call_history.settle(now_ns);
      hangs.look(*w, now_ns);
    }
    hangs.settle(now_ns);
    whatif.settle(now_ns);
    iterations.settle(now_ns);
    calls.choose(writer.book(), watches);
    look_at_inits(inits, hangs.init_links(), watches, processes, writer, settings, now_ns);
  }

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

Analyzer::Analyzer(const Settings& settings, Numbering numbering)
    : state_(std::make_unique<State>(settings, std::move(numbering))) {}
Analyzer::~Analyzer() = default;

void Analyzer::take_up(std::vector<LeftOpen> left) { state_->writer.book().take_up(std::move(left)); }

void Analyzer::let_go_histories() {
  for (const auto& [uid, w] : state_->watches) state_->let_go.call_histories += w->call_history.forget_over() ? 1 : 0;
}

void Analyzer::let_go(double part, Nanoseconds now_ns) {
  State& s = *state_;
  const auto silent_since_ns = now_ns - seconds_to_ns(s.settings.silent_s);
  s.let_go.processes += s.processes.let_go(silent_since_ns, s.inits.processes());
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(s.watches.size())));
  s.let_go_communicators(count, Worth::at_rest);
}

LetGo Analyzer::let_go_so_far() const {
  LetGo gone = state_->let_go;
  gone.processes_refused = state_->processes.refused();
  gone.initializations_refused = state_->inits.refused();
  return gone;
}

void Analyzer::admit_new(bool admit) {
  state_->admits_new = admit;
  state_->processes.admit_new(admit);
}

void Analyzer::apply(const Batch& batch, Nanoseconds now_ns) {
  state_->prefetch(batch);
  ProcessModel* process = state_->processes.heard(batch, now_ns);
  if (!process) return;
  process->kernels.prefetch();
  for (const Payload& payload : batch.payloads) {
    std::visit(
        [&](const auto& m) {
          using T = std::decay_t<decltype(m)>;
          if constexpr (std::is_same_v<T, AgentHealth>) {
            state_->processes.health(*process, m, now_ns);
            state_->last_operations(*process, m);
          } else if constexpr (std::is_same_v<T, CommInit>) {
            state_->inits.heard(m, *process, now_ns);
          } else if constexpr (std::is_same_v<T, Metrics>) {
            ProcessTable::metrics(*process, m, now_ns);
          } else if constexpr (std::is_same_v<T, NetQueues>) {
            ProcessTable::net_queues(*process, m, now_ns);
          } else if constexpr (std::is_same_v<T, ControlState>) {
            ProcessTable::control(*process, m);
          } else if (Watch* w = state_->watch(m.comm)) {
            if constexpr (std::is_same_v<T, CommUp>) {
              if (w->comm.contradicted_by(m)) {
                ++state_->contradictions;
                state_->remove(state_->watches.find(m.comm), now_ns);
                w = state_->watch(m.comm);
                if (!w) return;
              }
              w->comm.up(m, *process, now_ns);
              state_->inits.up(m, *process, now_ns);
            }
            if constexpr (std::is_same_v<T, CommDown>) w->comm.down(m, *process, now_ns);
            if constexpr (std::is_same_v<T, Rounds>) {
              w->comm.rounds(m, *process, now_ns);
              if (!state_->paper) state_->whatif.add(w->comm, *process, m, now_ns);
              if (w->comm.history().has_many_complete()) state_->take(*w, now_ns);
            }
            if constexpr (std::is_same_v<T, P2pRounds>) {
              w->comm.p2p_rounds(m, *process, now_ns);
              if (!state_->paper) state_->whatif.add(w->comm, *process, m, now_ns);
              if (!state_->paper) w->mismatch.bytes.ended(w->comm, m, *process, now_ns);
              w->call_history.add(m.rounds.size(), call_times(m), now_ns);
            }
            if constexpr (std::is_same_v<T, InFlight>) {
              w->comm.in_flight(m, *process, now_ns);
              if (!state_->paper) state_->whatif.add(w->comm, *process, m);
              if (!state_->paper) w->mismatch.bytes.in_flight(w->comm, m, *process, now_ns);
            }
          }
        },
        payload);
  }
}

std::vector<Incident> Analyzer::advance(Nanoseconds now_ns) {
  State& s = *state_;
  if (s.paper) {
    s.inits.tidy(s.processes, now_ns);  // shown, not judged
    s.paper->advance(now_ns);
  } else {
    s.look(now_ns);
  }
  s.forget(now_ns);
  s.job_ranks.name(s.writer.book(), s.watches, now_ns);
  describe_stages(s.writer.book(), s.watches, s.iterations, s.settings);
  return s.writer.book().take_changed(now_ns);
}

StatusView Analyzer::status(Nanoseconds now_ns) const {
  StatusView view;
  view.now_ns = now_ns;
  view.ranks_refused = state_->budget.refused();
  view.let_go = let_go_so_far();
  view.contradictions = state_->contradictions;
  view.incidents_open = state_->writer.book().open_count();
  view.communicators.reserve(state_->watches.size());
  view.processes.reserve(state_->processes.all().size());
  for (const auto& [uid, w] : state_->watches) {
    view.communicators.push_back(comm_status(w->comm, state_->processes, now_ns));
    view.communicators.back().call_history = w->call_history.over();
  }
  view.calls = state_->calls.all();
  for (const auto& [id, p] : state_->processes.all()) view.processes.push_back(process_status(*p, now_ns));
  for (const auto& [key, initialization] : state_->inits.all())
    view.inits.push_back(init_status(key, initialization, now_ns));
  return view;
}

std::vector<Incident> Analyzer::incidents() const { return state_->writer.book().all(); }

}  // namespace ccld::decision
