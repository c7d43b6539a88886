#include "decision/analysis/stages.h"

#include <algorithm>

namespace ccld::decision {
namespace {

Layout layout_of(const Settings& s) { return {s.layout_tp, s.layout_pp, s.layout_dp, s.layout_ep, s.layout_order}; }

bool is_slow(FaultClass f) {
  return f == FaultClass::s1_computation_slow || f == FaultClass::s2_communication_slow || f == FaultClass::s3_mixed_slow;
}

// The pipeline of a process, and its place there.
struct PipelinePlace {
  const Communicator* comm = nullptr;
  Rank rank;
};
PipelinePlace pipeline_of(const ProcessModel* process, const Watches& watches, const JobFacts& job, const Layout& layout) {
  if (!process) return {};
  for (const auto& m : process->memberships) {
    const auto it = watches.find(m.comm);
    if (it != watches.end() && role_of({&it->second->comm, it->second->mix}, job, layout).role == CommRole::pipeline)
      return {&it->second->comm, m.rank};
  }
  return {};
}

TrainingStage stage_of(const Incident& i, const Watch& w, const JobFacts& job, const Watches& watches,
                       const IterationAnalysis& iterations, const Settings& settings) {
  TrainingStage stage;
  stage.effect = i.stage.effect;
  const Layout layout = layout_of(settings);
  const CommFacts facts{&w.comm, w.mix};
  const RoleView role = role_of(facts, job, layout);
  stage.role = role.role;
  stage.role_confidence = role.confidence;
  const IterationTimes* witness = iterations.witness_like(w);
  const bool known = witness && witness->period() > 0;
  const Rank of{!i.culprits.empty() ? i.culprits[0].rank.value : i.candidates.empty() ? 0 : i.candidates[0].value};
  const RankModel* member = w.comm.rank(of);
  const PipelinePlace place = job.pipelined && !is_slow(i.fault) ? pipeline_of(member ? member->process : nullptr, watches, job, layout) : PipelinePlace{};
  const PhaseView phase =
      phase_of(facts, role, job, i.signature, w.comm.is_barrier(i.signature), known && i.replay == 0 ? witness->position(i.op) : std::nullopt,
               known && i.replay == 0 ? std::optional<bool>(witness->in_pattern()) : std::nullopt, place.comm, place.rank);
  stage.phase = phase.phase;
  stage.phase_confidence = phase.confidence;
  if (const auto view = iterations.view(i.job)) {
    stage.iteration_usual_ns = static_cast<Nanoseconds>(view->usual_ns);
    stage.iteration_now_ns = static_cast<Nanoseconds>(view->now_ns);
  }
  return stage;
}

}  // namespace

void describe_stages(IncidentBook& book, const Watches& watches, const IterationAnalysis& iterations, const Settings& settings) {
  std::map<std::string, JobFacts> jobs;  // of this call
  book.visit_changed([&](Incident& i) {
    // What it was when it ended is not what it was about.
    if (!is_open(i.state)) return;
    const auto it = watches.find(i.comm);
    if (it == watches.end()) return;
    auto [job, fresh] = jobs.try_emplace(i.job);
    if (fresh) {
      std::vector<CommFacts> of_job;
      for (const auto& [uid, w] : watches)
        if (w->comm.job() == i.job) of_job.push_back({&w->comm, w->mix});
      job->second = facts_of(of_job);
    }
    i.stage = stage_of(i, *it->second, job->second, watches, iterations, settings);
  });
}

}  // namespace ccld::decision
