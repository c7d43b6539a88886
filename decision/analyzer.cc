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
#include "decision/analysis/intake.h"
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
// A look at a full table that found nobody to let go of is not worth another one at once: it takes milliseconds.
constexpr Nanoseconds no_room_for_ns = 100 * ns_per_ms;

template <class Message>
constexpr bool says_what_ranks_do =
    std::is_same_v<Message, Rounds> || std::is_same_v<Message, P2pRounds> || std::is_same_v<Message, InFlight>;

}  // namespace

struct Analyzer::State {
  // Where what a batch is about is kept, as far as that is known: looked up for many batches by several threads.
  struct FoundRank {
    Watch* watch = nullptr;
    bool is_member = false;  // the sender speaks for this rank
    int cuda_device = -1;    // of a member
  };
  struct Found {
    ProcessModel* sender = nullptr;
    std::vector<FoundRank> ranks;  // by payload
  };

  State(const Settings& s, Numbering numbering, Workers* w)
      : settings(s), workers(w ? *w : alone), writer(settings, std::move(numbering)) {
    if (s.rules == RuleSet::paper) paper.emplace(settings, watches, processes, writer);
  }

  const Settings settings;
  Workers alone;
  Workers& workers;
  Intake intake;
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
  Nanoseconds forgot_ns = 0, heard_ns = 0;
  std::vector<Found> found;
  uint64_t gone = 0;  // changes when a communicator or a process goes: what was found may be no more
  uint64_t contradictions = 0;
  bool admits_new = true;
  Nanoseconds no_rank_room_until_ns = 0, next_process_room_ns = 0;
  size_t no_rank_room_for = 0;  // memberships of a machine
  LetGo let_go;

  void look_up(const Batch& batch, Found& out) const {
    out.sender = processes.find(batch.process);
    out.ranks.assign(batch.payloads.size(), {});
    for (size_t i = 0; out.sender && i < batch.payloads.size(); ++i)
      std::visit([&](const auto& m) { look_up(m, *out.sender, out.ranks[i]); }, batch.payloads[i]);
  }
  template <class Message>
  void look_up(const Message& m, const ProcessModel& sender, FoundRank& out) const {
    if constexpr (says_what_ranks_do<Message>) {
      const auto it = watch_of.find(m.comm);
      if (it != watch_of.end()) out = find_in(*it->second, m.rank, sender);
    }
  }
  static FoundRank find_in(Watch& w, Rank rank, const ProcessModel& sender) {
    const RankModel* const r = w.comm.rank(rank);
    return r && r->process == &sender ? FoundRank{&w, true, r->cuda_device} : FoundRank{&w};
  }
  // It lies anywhere in memory, and is fetched while the batch before is heard.
  static void prefetch(const Found& where) {
    if (where.sender) where.sender->prefetch();
    for (const FoundRank& r : where.ranks)
      if (r.watch) __builtin_prefetch(&r.watch->waiting, 1);
  }
  void hear(absl::Span<const Batch* const> batches, Nanoseconds now_ns) {
    found.resize(std::max(found.size(), batches.size()));
    const auto look = [&](size_t i) { look_up(*batches[i], found[i]); };
    constexpr size_t to_share_min = 128;  // each takes some 300 ns
    workers.run(batches.size(), to_share_min, look);
    const uint64_t let_go_before = gone;
    for (size_t i = 0; i < batches.size(); ++i) {
      if (gone != let_go_before) look(i);
      if (i + 1 < batches.size() && gone == let_go_before) prefetch(found[i + 1]);
      hear(*batches[i], found[i], now_ns);
    }
    take_in();
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

  absl::flat_hash_set<CommUid> needed() const {
    absl::flat_hash_set<CommUid> found;
    writer.book().visit_open([&found](const Incident& i) { found.insert(i.comm); });
    return found;
  }

  size_t let_go_communicators(size_t count, Worth up_to) {
    take_in();
    const Nanoseconds silent_since_ns = processes.newest_ns() - seconds_to_ns(settings.silent_s);
    return let_go_of(least_missed(watches, needed(), count, up_to, silent_since_ns));
  }

  size_t let_go_of(const std::vector<CommUid>& going) {
    for (const CommUid uid : going) {
      const auto it = watches.find(uid);
      remove(it, it->second->comm.heard_ns());
    }
    let_go.communicators += going.size();
    return going.size();
  }

  void make_room_for_ranks(const ProcessId& id, Nanoseconds now_ns) {
    // Where one found nothing that made way for it, who has as much finds nothing either.
    const size_t own = processes.memberships_of_machine(id);
    const bool known = now_ns < no_rank_room_until_ns;
    if (known && own >= no_rank_room_for) return;
    take_in();
    const Nanoseconds silent_since_ns = now_ns - seconds_to_ns(settings.silent_s);
    const size_t count = std::min(at_once(), watches.size() / 64 + 1);
    if (let_go_of(claims_that_make_way(watches, needed(), count, machine_of(id), silent_since_ns)) > 0) return;
    no_rank_room_for = own;
    if (!known) no_rank_room_until_ns = now_ns + no_room_for_ns;
  }

  // Before it is heard of: a full table is nobody's for ever.
  void make_room_for(const ProcessId& id, Nanoseconds now_ns) {
    if (admits_new && budget.is_short()) make_room_for_ranks(id, now_ns);
    if (!admits_new || !processes.has_no_room_for(id) || now_ns < next_process_room_ns) return;
    take_in();
    const size_t count = std::max<size_t>(1, settings.processes_max / 64);
    size_t n = processes.let_go_of_the_least_missed(count, inits.processes());
    if (n == 0) {
      inits.forget_who_was_ready();
      let_go_communicators(at_once(), Worth::claimed);
      n = processes.let_go_of_the_least_missed(count, inits.processes());
    }
    let_go.processes += n;
    ++gone;
    if (n == 0) next_process_room_ns = now_ns + no_room_for_ns;
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
    ++gone;
    return watches.erase(it);
  }

  // Of a communicator whose calls are not kept it changes nothing but what is known of that one.
  void take_rounds(Watch& w, Nanoseconds now_ns) {
    // Of the calls that are taken together one is measured: a look at all ranks for each would cost too much.
    bool measured = false;
    const auto add = [&](const RoundEntry& e) {
      iterations.add(w, e, now_ns);
      whatif.add(w, e);
      calls.add(w.comm.uid(), e, now_ns);
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

  // Of a communicator: in a thread of its own.
  void take_in(Watch& w, const Report& report, Nanoseconds now_ns) {
    ProcessModel& process = *report.process;
    if (const auto* m = std::get_if<Rounds>(report.payload)) {
      w.comm.rounds(*m, process, now_ns);
      if (w.comm.history().has_many_complete() && !calls.keeps(w.comm.uid())) take(w, now_ns);
    } else if (const auto* p2p = std::get_if<P2pRounds>(report.payload)) {
      w.comm.p2p_rounds(*p2p, process, now_ns);
      if (!paper) w.mismatch.bytes.ended(w.comm, *p2p, process, now_ns);
      w.call_history.add(p2p->rounds.size(), call_times(*p2p), now_ns);
    } else if (const auto* in_flight = std::get_if<InFlight>(report.payload)) {
      w.comm.in_flight(*in_flight, process, now_ns);
      if (!paper) w.mismatch.bytes.in_flight(w.comm, *in_flight, process, now_ns);
    }
  }

  // Of a process, likewise.
  static void take_in(ProcessModel& process, const Payload& payload, const Communicator* comm, Nanoseconds now_ns) {
    if (const auto* metrics = std::get_if<Metrics>(&payload)) ProcessTable::metrics(process, *metrics, now_ns);
    if (const auto* queues = std::get_if<NetQueues>(&payload)) ProcessTable::net_queues(process, *queues, now_ns);
    if (const auto* m = std::get_if<Rounds>(&payload)) log_kernels(*comm, *m, process);
    if (const auto* m = std::get_if<P2pRounds>(&payload)) log_kernels(*comm, *m, process);
  }

  void settle(Watch& w, Nanoseconds now_ns) {
    if (w.comm.history().has_many_complete()) take(w, now_ns);
  }

  void take_in() {
    if (intake.empty()) return;
    const Nanoseconds now_ns = heard_ns;
    intake.take_in(workers, {[&](Watch& w, const Report& report) { take_in(w, report, now_ns); },
                             [&](ProcessModel& process, const Payload& payload, const Communicator* comm) {
                               take_in(process, payload, comm, now_ns);
                             },
                             [&](Watch& w) { settle(w, now_ns); }});
  }

  void hear(const Batch& batch, const Found& where, Nanoseconds now_ns) {
    heard_ns = now_ns;
    const uint64_t gone_before = gone;
    make_room_for(batch.process, now_ns);
    const bool known = where.sender && gone == gone_before;
    ProcessModel* const process = known ? where.sender : processes.sender(batch);
    if (!process) return;
    if (Intake::waits(*process)) take_in();
    processes.heard(*process, batch, now_ns);
    process->kernels.prefetch();
    for (size_t i = 0; i < batch.payloads.size(); ++i) {
      const Payload& payload = batch.payloads[i];
      const FoundRank rank = gone == gone_before ? where.ranks[i] : FoundRank{};
      std::visit([&](const auto& m) { hear(m, payload, rank, *process, now_ns); }, payload);
    }
  }

  // What a process says of itself, and of others.
  void hear(const AgentHealth& m, const Payload&, FoundRank, ProcessModel& process, Nanoseconds now_ns) {
    processes.health(process, m, now_ns);
    last_operations(process, m);
  }
  void hear(const CommInit& m, const Payload&, FoundRank, ProcessModel& process, Nanoseconds now_ns) {
    inits.heard(m, process, now_ns);
  }
  void hear(const ControlState& m, const Payload&, FoundRank, ProcessModel& process, Nanoseconds) {
    ProcessTable::control(process, m);
  }
  void hear(const Metrics&, const Payload& p, FoundRank, ProcessModel& process, Nanoseconds) { intake.add(process, p); }
  void hear(const NetQueues&, const Payload& p, FoundRank, ProcessModel& process, Nanoseconds) { intake.add(process, p); }

  // Who is a rank of what.
  void hear(const CommUp& m, const Payload&, FoundRank, ProcessModel& process, Nanoseconds now_ns) {
    take_in();
    Watch* w = watch(m.comm);
    if (w && w->comm.contradicted_by(m)) {
      ++contradictions;
      remove(watches.find(m.comm), now_ns);
      w = watch(m.comm);
    }
    if (!w) return;
    w->comm.up(m, process, now_ns);
    inits.up(m, process, now_ns);
  }
  void hear(const CommDown& m, const Payload&, FoundRank, ProcessModel& process, Nanoseconds now_ns) {
    take_in();
    if (Watch* w = watch(m.comm)) w->comm.down(m, process, now_ns);
  }

  // What its ranks did, and do.
  template <class Reported>
  void hear(const Reported& m, const Payload& payload, FoundRank rank, ProcessModel& process, Nanoseconds now_ns) {
    if (!rank.is_member) {
      Watch* const known = watch(m.comm);
      if (!known) return;
      rank = find_in(*known, m.rank, process);
    }
    Watch* const w = rank.watch;
    if (!rank.is_member) {
      take_in();
      if (!w->comm.join(m.rank, process, now_ns)) return;  // what is said of this rank counts for nothing
      rank = find_in(*w, m.rank, process);
    }
    if constexpr (std::is_same_v<Reported, InFlight>) {
      if (w->comm.is_news(m, process)) process.probe_stopped = m.stopped;
    } else {
      if (!paper) whatif.add(w->comm, {&process, rank.cuda_device}, m, now_ns);
    }
    if (!paper && iterations.has_chosen(*w)) return intake.add(*w, process, payload);
    // The first communicators become witnesses: that changes more than this one.
    take_in(*w, {&payload, &process}, now_ns);
    take_in(process, payload, &w->comm, now_ns);
    settle(*w, now_ns);
  }

  void look(Nanoseconds now_ns) {
    for (auto& [uid, w] : watches) {
      look_for_mismatch(*w, writer, settings, now_ns);
      take_rounds(*w, now_ns);
      // Rounds of which some reports were lost still say where ranks wait.
      w->comm.history().visit_overdue(now_ns, [&](const RoundEntry& e) {
        whatif.add(*w, e);
        calls.add(uid, e, now_ns);
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

Analyzer::Analyzer(const Settings& settings, Numbering numbering, Workers* workers)
    : state_(std::make_unique<State>(settings, std::move(numbering), workers)) {}
Analyzer::~Analyzer() = default;

void Analyzer::take_up(std::vector<LeftOpen> left) { state_->writer.book().take_up(std::move(left)); }

void Analyzer::lead(Numbering numbering, std::vector<LeftOpen> left) { state_->writer.book().lead(std::move(numbering), std::move(left)); }

void Analyzer::follow() { state_->writer.book().follow(); }

void Analyzer::let_go_histories() {
  for (const auto& [uid, w] : state_->watches) state_->let_go.call_histories += w->call_history.forget_over() ? 1 : 0;
}

size_t Analyzer::let_go(double part, Worth up_to, Nanoseconds now_ns) {
  State& s = *state_;
  const auto silent_since_ns = now_ns - seconds_to_ns(s.settings.silent_s);
  s.let_go.processes += s.processes.let_go(silent_since_ns, s.inits.processes());
  const auto count = static_cast<size_t>(std::ceil(part * static_cast<double>(s.watches.size())));
  const size_t gone = s.let_go_communicators(count, up_to);
  s.inits.let_go(part);
  return gone;
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
  state_->inits.admit_new(admit);
}

void Analyzer::apply(absl::Span<const Batch* const> batches, Nanoseconds now_ns) {
  state_->hear(batches, now_ns);
}

void Analyzer::apply(const Batch& batch, Nanoseconds now_ns) {
  const Batch* const one = &batch;
  apply(absl::MakeConstSpan(&one, 1), now_ns);
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
