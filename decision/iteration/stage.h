// Where in the training iteration an incident lies: what its communicator is for, which part of the iteration its
// operation belongs to, and whether the iteration gets longer by it.
// (Beyond the paper; stages and critical paths as trace-based diagnosis of training has them.)
//
// Contract: pure over the model. "unknown" where evidence does not say; every statement has a confidence, 0 to 1, that
// of a given layout close to 1.
#pragma once

#include <array>
#include <vector>

#include "decision/model/communicator.h"
#include "decision/model/layout.h"
#include "decision/model/verdict.h"

namespace ccld::decision {

// What a communicator was seen to do.
struct OperationMix {
  std::array<uint32_t, 16> rounds{};  // by function
  uint64_t bytes_max = 0;             // of an AllReduce or ReduceScatter
  void add(const Signature&);
  uint32_t of(abi::Function f) const { return rounds[static_cast<size_t>(f) % rounds.size()]; }
};

struct CommFacts {
  const Communicator* comm = nullptr;
  OperationMix mix;
};

struct JobFacts {
  size_t processes = 0;
  const Communicator* world = nullptr;    // of all processes; nullptr: none
  bool pipelined = false;                 // some communicator is for Send and Recv between neighbours
  size_t communicators = 0;
};
JobFacts facts_of(const std::vector<CommFacts>& of_job);

struct RoleView {
  CommRole role = CommRole::unknown;
  double confidence = 0;
};
RoleView role_of(const CommFacts&, const JobFacts&, const Layout&);

struct PhaseView {
  IterationPhase phase = IterationPhase::unknown;
  double confidence = 0;
};
// `position`: of the operation in the iteration; `in_pattern`: the communicator does what it does in every iteration.
// `pipeline`, `pipeline_rank`: where a process of the incident stands in its pipeline.
PhaseView phase_of(const CommFacts&, const RoleView&, const JobFacts&, const Signature&, bool barrier,
                   std::optional<double> position, std::optional<bool> in_pattern, const Communicator* pipeline,
                   Rank pipeline_rank);

// Whether the job gets longer by it. `gain_min`: what counts as longer.
StageEffect effect_of(const Gain&, double gain_min);

}  // namespace ccld::decision
