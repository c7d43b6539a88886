#include "decision/iteration/stage.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "decision/model/names.h"

namespace ccld::decision {
namespace {

bool one_host(const Communicator& c) {
  const std::string* host = nullptr;
  for (const RankModel& r : c.ranks()) {
    if (!r.process) continue;
    if (host && *host != r.process->id.host) return false;
    host = &r.process->id.host;
  }
  return host != nullptr;
}

// Only neighbours talk to each other.
bool looks_like_pipeline(const Communicator& c, const OperationMix& mix) {
  const uint64_t pairs = c.p2p_rounds();
  uint64_t collectives = 0;
  for (uint32_t n : mix.rounds) collectives += n;
  if (pairs == 0 || pairs < collectives) return false;
  const int n = c.rank_count();
  for (const RankModel& r : c.ranks()) {
    if (!r.p2p_ended) continue;
    for (const auto& [pair, seq] : r.p2p_ended->calls) {
      const int apart = std::abs(pair.first - r.rank.value);
      if (apart != 1 && apart != n - 1) return false;
    }
  }
  return true;
}

uint64_t ended(const RankModel& r, int peer, abi::Direction direction) {
  if (!r.p2p_ended) return 0;
  const auto it = r.p2p_ended->calls.find({peer, direction});
  return it == r.p2p_ended->calls.end() ? 0 : it->second;
}

// A stage that has received what it did not pass on is working on it.
PhaseView phase_in_pipeline(const Communicator& pipeline, Rank rank) {
  const RankModel* r = pipeline.rank(rank);
  if (!r || rank.value == 0 || rank.value + 1 >= pipeline.rank_count()) return {};
  const int before = rank.value - 1, after = rank.value + 1;
  const bool forward = ended(*r, before, abi::Direction::recv) > ended(*r, after, abi::Direction::send);
  const bool backward = ended(*r, after, abi::Direction::recv) > ended(*r, before, abi::Direction::send);
  if (forward == backward) return {};
  return {forward ? IterationPhase::forward : IterationPhase::backward, 0.8};
}

}  // namespace

void OperationMix::add(const Signature& s) {
  ++rounds[static_cast<size_t>(s.function) % rounds.size()];
  if (s.function == abi::Function::all_reduce || s.function == abi::Function::reduce_scatter)
    bytes_max = std::max(bytes_max, s.count * datatype_bytes(s.datatype));
}

JobFacts facts_of(const std::vector<CommFacts>& of_job) {
  JobFacts job;
  absl::flat_hash_set<const ProcessModel*> processes;
  for (const CommFacts& c : of_job) {
    ++job.communicators;
    for (const RankModel& r : c.comm->ranks())
      if (r.process) processes.insert(r.process);
    job.pipelined |= looks_like_pipeline(*c.comm, c.mix);
  }
  job.processes = processes.size();
  for (const CommFacts& c : of_job)
    if (static_cast<size_t>(c.comm->rank_count()) == job.processes && (!job.world || c.comm->uid() < job.world->uid()))
      job.world = c.comm;
  return job;
}

RoleView role_of(const CommFacts& c, const JobFacts& job, const Layout& layout) {
  if (layout.given() && job.world && static_cast<uint64_t>(job.world->rank_count()) == layout.processes()) {
    // Numbers of processes are their ranks in the communicator of all.
    std::vector<int> numbers;
    for (const RankModel& r : c.comm->ranks()) {
      int number = -1;
      if (r.process)
        for (const auto& m : r.process->memberships)
          if (m.comm == job.world->uid()) number = m.rank.value;
      numbers.push_back(number);
    }
    const CommRole role = role_of(layout, numbers);
    if (role != CommRole::unknown) return {role, 0.95};
  }
  const auto ranks = static_cast<size_t>(c.comm->rank_count());
  if (looks_like_pipeline(*c.comm, c.mix)) return {CommRole::pipeline, 0.85};
  if (c.mix.of(abi::Function::all_to_all) > 0 || (c.comm->p2p_rounds() > 0 && !job.pipelined))
    return {CommRole::expert, 0.6};
  if (job.communicators == 1) return {CommRole::data, 0.5};  // all that a job with one communicator can be
  if (ranks == job.processes) return {CommRole::world, 0.8};
  const uint32_t reduces = c.mix.of(abi::Function::all_reduce) + c.mix.of(abi::Function::reduce_scatter) +
                           c.mix.of(abi::Function::all_gather);
  if (reduces == 0) return {};
  constexpr size_t tensor_ranks_max = 16;  // it wants NVLink
  if (one_host(*c.comm) && ranks <= tensor_ranks_max) return {CommRole::tensor, 0.6};
  return {CommRole::data, 0.6};
}

PhaseView phase_of(const CommFacts& c, const RoleView& role, const JobFacts& job, const Signature& s, bool barrier,
                   std::optional<double> position, std::optional<bool> in_pattern, const Communicator* pipeline,
                   Rank pipeline_rank) {
  const bool pairs =
      s.function == abi::Function::send || s.function == abi::Function::recv || s.function == abi::Function::unknown;
  if (role.role == CommRole::pipeline && pairs) return {IterationPhase::pipeline_transfer, role.confidence};
  if (in_pattern.has_value() && !*in_pattern) return {IterationPhase::evaluation_checkpoint, 0.6};
  const bool reduces = s.function == abi::Function::all_reduce || s.function == abi::Function::reduce_scatter;
  switch (role.role) {
    case CommRole::data:
      if (reduces && !barrier) return {IterationPhase::gradient_reduction, role.confidence};
      return {};
    case CommRole::world:
      if (barrier || s.function == abi::Function::broadcast) return {IterationPhase::evaluation_checkpoint, 0.4};
      // Without data groups, gradients go through all.
      if (reduces && c.mix.bytes_max >= (1u << 20) && job.communicators <= 2)
        return {IterationPhase::gradient_reduction, 0.5};
      return {};
    case CommRole::tensor:
    case CommRole::expert: {
      if (pipeline) {
        const PhaseView phase = phase_in_pipeline(*pipeline, pipeline_rank);
        if (phase.phase != IterationPhase::unknown) return phase;
      }
      // Without a pipeline, an iteration is one forward and one backward pass of about as many operations.
      if (position.has_value() && !job.pipelined)
        return {*position < 0.5 ? IterationPhase::forward : IterationPhase::backward, 0.5 * role.confidence + 0.1};
      return {};
    }
    case CommRole::pipeline:
    case CommRole::unknown: return {};
  }
  return {};
}

StageEffect effect_of(const Gain& gain, double gain_min) {
  if (!gain.known()) return StageEffect::unknown;
  return gain.share() >= gain_min ? StageEffect::critical : StageEffect::absorbed;
}

}  // namespace ccld::decision
