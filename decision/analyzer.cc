#include "decision/analyzer.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "decision/analysis/call_records.h"
#include "decision/analysis/hangs.h"
#include "decision/analysis/hearing.h"
#include "decision/analysis/incident_writer.h"
#include "decision/analysis/inits.h"
#include "decision/analysis/iterations.h"
#include "decision/analysis/job_ranks.h"
#include "decision/analysis/mismatches.h"
#include "decision/analysis/reports.h"
#include "decision/analysis/stages.h"
#include "decision/analysis/status_view.h"
#include "decision/analysis/tables.h"
#include "decision/analysis/watch.h"
#include "decision/analysis/whatif_analysis.h"
#include "decision/paper/rules.h"

namespace ccld::decision {

struct Analyzer::State {
  State(const Settings& s, Numbering numbering, Workers* w)
      : settings(s), workers(w ? *w : alone), writer(settings, std::move(numbering)) {}

  const Settings settings;
  Workers alone;
  Workers& workers;
  IncidentWriter writer;
  Tables tables{settings,
                {.take_in = [this] { hearing.take_in(); },
                 .needed = [this] { return comms_of_open_incidents(); },
                 .leaves = [this](Watch& w, Nanoseconds now_ns) { leaves(w, now_ns); }}};
  JobRanks job_ranks;
  HangAnalysis hangs{settings, tables.watches(), tables.processes(), tables.inits(), writer};
  IterationAnalysis iterations{settings, tables.watches(), writer};
  WhatIfAnalysis whatif{settings, tables.watches(), writer, iterations};
  CallRecords calls;  // for people
  // Instead of these four.
  const std::unique_ptr<PaperRules> paper =
      settings.rules == RuleSet::paper
          ? std::make_unique<PaperRules>(settings, tables.watches(), tables.processes(), writer)
          : nullptr;
  Reports reports{workers, iterations, whatif, calls, paper ? take_of(*paper) : Reports::OtherRules()};
  Hearing hearing{workers, tables, reports, paper ? nullptr : &whatif};

  static Reports::OtherRules take_of(PaperRules& rules) {
    return [&rules](Watch& w, Nanoseconds now_ns) { rules.take(w, now_ns); };
  }

  absl::flat_hash_set<CommUid> comms_of_open_incidents() const {
    absl::flat_hash_set<CommUid> found;
    writer.book().visit_open([&found](const Incident& i) { found.insert(i.comm); });
    return found;
  }

  void leaves(Watch& w, Nanoseconds now_ns) {
    for (uint64_t id : {w.hang.incident, w.mismatch.incident}) writer.book().end(id, now_ns);
    iterations.drop(w, now_ns);
    if (paper) paper->drop(w, now_ns);
  }

  void look(Nanoseconds now_ns) {
    for (auto& [uid, w] : tables.watches()) {
      look_for_mismatch(*w, writer, settings, now_ns);
      reports.take_rounds(*w, now_ns);
      reports.take_overdue_rounds(*w, now_ns);
      w->call_history.settle(now_ns);
      hangs.look(*w, now_ns);
    }
    hangs.settle(now_ns);
    whatif.settle(now_ns);
    iterations.settle(now_ns);
    calls.choose(writer.book(), tables.watches());
    look_at_inits(tables.inits(), hangs.init_links(), tables.watches(), tables.processes(), writer, settings, now_ns);
  }
};

Analyzer::Analyzer(const Settings& settings, Numbering numbering, Workers* workers)
    : state_(std::make_unique<State>(settings, std::move(numbering), workers)) {}
Analyzer::~Analyzer() = default;

void Analyzer::take_up(std::vector<LeftOpen> left) { state_->writer.book().take_up(std::move(left)); }

void Analyzer::lead(Numbering numbering, std::vector<LeftOpen> left) { state_->writer.book().lead(std::move(numbering), std::move(left)); }

void Analyzer::follow() { state_->writer.book().follow(); }

void Analyzer::let_go_histories() { state_->tables.let_go_histories(); }

size_t Analyzer::let_go(double part, Worth up_to, Nanoseconds now_ns) {
  return state_->tables.let_go(part, up_to, now_ns);
}

LetGo Analyzer::let_go_so_far() const { return state_->tables.let_go_so_far(); }

void Analyzer::admit_new(bool admit) { state_->tables.admit_new(admit); }

void Analyzer::apply(absl::Span<const Batch* const> batches, Nanoseconds now_ns) {
  state_->hearing.hear(batches, now_ns);
}

void Analyzer::apply(const Batch& batch, Nanoseconds now_ns) {
  const Batch* const one = &batch;
  apply(absl::MakeConstSpan(&one, 1), now_ns);
}

std::vector<Incident> Analyzer::advance(Nanoseconds now_ns) {
  State& s = *state_;
  if (s.paper) {
    s.tables.inits().tidy(s.tables.processes(), now_ns);  // shown, not judged
    s.paper->advance(now_ns);
  } else {
    s.look(now_ns);
  }
  s.tables.forget(now_ns);
  s.job_ranks.name(s.writer.book(), s.tables.watches(), now_ns);
  describe_stages(s.writer.book(), s.tables.watches(), s.iterations, s.settings);
  return s.writer.book().take_changed(now_ns);
}

std::optional<Owner> Analyzer::owner_of(CommUid comm) const {
  const Watch* const w = state_->tables.find(comm);
  if (w == nullptr) return std::nullopt;
  return Owner{w->comm.job(), {}};
}

std::optional<Owner> Analyzer::owner_of(const ProcessId& id) const { return state_->tables.processes().owner_of(id); }

std::optional<Owner> Analyzer::owner_of(const ProcessId& reporter, const Sibling& s) const {
  return state_->tables.processes().owner_of(reporter, s);
}

StatusView Analyzer::status(Nanoseconds now_ns) const {
  StatusView view;
  view.now_ns = now_ns;
  view.ranks_refused = state_->tables.ranks_refused();
  view.names_refused = state_->tables.names_refused();
  view.let_go = let_go_so_far();
  view.contradictions = state_->tables.contradictions();
  view.incidents_open = state_->writer.book().open_count();
  view.communicators.reserve(state_->tables.watches().size());
  view.processes.reserve(state_->tables.processes().all().size());
  for (const auto& [uid, w] : state_->tables.watches()) {
    view.communicators.push_back(comm_status(w->comm, state_->tables.processes(), now_ns));
    view.communicators.back().call_history = w->call_history.over();
  }
  view.calls = state_->calls.all();
  for (const auto& [id, p] : state_->tables.processes().all()) view.processes.push_back(process_status(*p, now_ns));
  for (const auto& [key, initialization] : state_->tables.inits().all())
    view.inits.push_back(init_status(key, initialization, now_ns));
  return view;
}

std::vector<Incident> Analyzer::incidents() const { return state_->writer.book().all(); }

}  // namespace ccld::decision
