#include "decision/iteration/stage.h"

#include <catch2/catch.hpp>

#include "test/support/telemetry/fake_cluster.h"

namespace ccld::decision {
namespace {

// Communicators over processes of four hosts with four processes each.
struct Job {
  Settings settings;
  ProcessTable processes{settings};
  std::vector<std::unique_ptr<Communicator>> comms;
  std::vector<OperationMix> mixes;

  size_t add(const std::vector<int>& members) {
    comms.push_back(std::make_unique<Communicator>(CommUid{comms.size() + 1}, settings));
    mixes.emplace_back();
    for (size_t r = 0; r < members.size(); ++r) {
      Batch b;
      b.process.host = b.process.boot_id = "host" + std::to_string(members[r] / 4);
      b.process.pid = 100 + static_cast<uint32_t>(members[r]);
      CommUp up;
      up.comm = comms.back()->uid();
      up.rank = Rank{static_cast<int32_t>(r)};
      up.rank_count = static_cast<int>(members.size());
      comms.back()->up(up, *processes.heard(b, 1), 1);
    }
    return comms.size() - 1;
  }
  void does(size_t comm, abi::Function f, uint64_t count = 1 << 20) {
    Signature s = fake::all_reduce(count);
    s.function = f;
    mixes[comm].add(s);
  }
  void passes(size_t comm, int from, int to, uint64_t pair_seq, bool received = true) {
    const auto tell = [&](int rank, int peer, abi::Direction direction) {
      P2pRounds m;
      m.comm = comms[comm]->uid();
      m.rank = Rank{rank};
      P2pRound round;
      round.peer = Rank{peer};
      round.direction = direction;
      round.pair_seq = pair_seq;
      m.rounds.push_back(round);
      comms[comm]->p2p_rounds(m, *comms[comm]->rank(Rank{rank})->process, 1);
    };
    tell(from, to, abi::Direction::send);
    if (received) tell(to, from, abi::Direction::recv);
  }
  CommFacts facts(size_t comm) const { return {comms[comm].get(), mixes[comm]}; }
  JobFacts job() const {
    std::vector<CommFacts> all;
    for (size_t c = 0; c < comms.size(); ++c) all.push_back(facts(c));
    return facts_of(all);
  }
  CommRole role(size_t comm, const Layout& layout = {}) const { return role_of(facts(comm), job(), layout).role; }
};

std::vector<int> every(int step, int from, int to) {
  std::vector<int> v;
  for (int i = from; i < to; i += step) v.push_back(i);
  return v;
}

}  // namespace

TEST_CASE("What a communicator is for is told from where its ranks are and what they do") {
  Job job;
  const size_t world = job.add(every(1, 0, 16)), tensor = job.add(every(1, 0, 4)), data = job.add(every(4, 0, 16)),
               pipeline = job.add({0, 4, 8}), expert = job.add({1, 5}), idle = job.add({2, 6});
  job.does(world, abi::Function::all_reduce, 1);
  job.does(tensor, abi::Function::all_reduce);
  job.does(data, abi::Function::reduce_scatter);
  job.does(expert, abi::Function::all_to_all);
  for (uint64_t k = 1; k < 4; ++k) job.passes(pipeline, 0, 1, k), job.passes(pipeline, 1, 2, k);
  CHECK(job.role(world) == CommRole::world);
  CHECK(job.role(tensor) == CommRole::tensor);
  CHECK(job.role(data) == CommRole::data);
  CHECK(job.role(pipeline) == CommRole::pipeline);
  CHECK(job.role(expert) == CommRole::expert);
  CHECK(job.role(idle) == CommRole::unknown);
}

TEST_CASE("A given layout knows better than a guess") {
  Job job;
  const size_t world = job.add(every(1, 0, 16)), group = job.add(every(1, 0, 4));
  job.does(world, abi::Function::all_reduce);
  job.does(group, abi::Function::all_reduce);
  CHECK(job.role(group) == CommRole::tensor);
  const Layout layout{1, 4, 4, 0, "tp-dp-pp"};
  CHECK(job.role(group, layout) == CommRole::data);
  CHECK(role_of(job.facts(group), job.job(), layout).confidence > 0.9);
  // One that is about another number of processes is not about this job.
  CHECK(job.role(group, Layout{2, 2, 2, 0, "tp-dp-pp"}) == CommRole::tensor);
}

TEST_CASE("The part of the iteration follows from the role and the operation") {
  Job job;
  const size_t tensor = job.add(every(1, 0, 4)), data = job.add(every(4, 0, 16));
  const auto phase = [&](size_t comm, CommRole role, abi::Function f, std::optional<double> position, std::optional<bool> in_pattern = true,
                         bool barrier = false) {
    Signature s = fake::all_reduce();
    s.function = f;
    return phase_of(job.facts(comm), {role, 0.9}, job.job(), s, barrier, position, in_pattern, nullptr, Rank{0}).phase;
  };
  CHECK(phase(data, CommRole::data, abi::Function::reduce_scatter, {}) == IterationPhase::gradient_reduction);
  CHECK(phase(data, CommRole::data, abi::Function::all_gather, {}) == IterationPhase::unknown);
  CHECK(phase(data, CommRole::data, abi::Function::all_reduce, {}, false) == IterationPhase::evaluation_checkpoint);
  CHECK(phase(tensor, CommRole::tensor, abi::Function::all_reduce, 0.2) == IterationPhase::forward);
  CHECK(phase(tensor, CommRole::tensor, abi::Function::all_reduce, 0.8) == IterationPhase::backward);
  CHECK(phase(tensor, CommRole::tensor, abi::Function::all_reduce, {}) == IterationPhase::unknown);
  CHECK(phase(tensor, CommRole::pipeline, abi::Function::send, {}) == IterationPhase::pipeline_transfer);
  CHECK(phase(tensor, CommRole::world, abi::Function::all_reduce, {}, {}, true) == IterationPhase::evaluation_checkpoint);
}

TEST_CASE("A stage of a pipeline that has received what it did not pass on tells forward from backward") {
  Job job;
  const size_t tensor = job.add(every(1, 4, 8)), pipeline = job.add({0, 4, 8});
  const auto phase = [&] {
    return phase_of(job.facts(tensor), {CommRole::tensor, 0.9}, job.job(), fake::all_reduce(), false, 0.9, true, job.comms[pipeline].get(), Rank{1})
        .phase;
  };
  job.passes(pipeline, 0, 1, 1);
  CHECK(phase() == IterationPhase::forward);
  job.passes(pipeline, 1, 2, 1);
  CHECK(phase() == IterationPhase::unknown);
  job.passes(pipeline, 2, 1, 1);
  CHECK(phase() == IterationPhase::backward);
  job.passes(pipeline, 1, 0, 1);
  CHECK(phase() == IterationPhase::unknown);
}

TEST_CASE("Slowness is critical if the job would gain enough without it, absorbed if not") {
  CHECK(effect_of({100, 95, true}, 0.05) == StageEffect::critical);
  CHECK(effect_of({100, 50, false}, 0.05) == StageEffect::critical);
  CHECK(effect_of({100, 96, true}, 0.05) == StageEffect::absorbed);
  CHECK(effect_of({}, 0.05) == StageEffect::unknown);
}

}  // namespace ccld::decision
