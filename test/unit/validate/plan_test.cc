#include "decision/validate/plan.h"

#include <catch2/catch.hpp>
#include <ctime>

#include "decision/report/headline.h"
#include "decision/validate/judge.h"
#include "test/unit/validate/fake_machine.h"

namespace ccld::decision::validate {
namespace {

Outcome run(FakeMachine& machine, Past past = {}) {
  PlanOptions options;
  options.past = std::move(past);
  Outcome out;
  out.now_ns = 1;
  run_plan(machine, options, out);
  return out;
}

std::vector<std::string> titles(const Outcome& o) {
  std::vector<std::string> out;
  for (const Incident& i : o.incidents) out.push_back(report::headline(i));
  return out;
}

using Titles = std::vector<std::string>;

TEST_CASE("A healthy machine is cleared, whatever the seed, also where a sixth of all repetitions is disturbed") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    FakeMachine machine(2 + static_cast<int>(seed % 3), 1 + static_cast<int>(seed % 4), seed);
    machine.disturbed = seed % 2 ? 0 : 0.16;
    const Outcome o = run(machine);
    CHECK(titles(o) == Titles{});
    CHECK(exit_status(o) == exit_healthy);
  }
}

TEST_CASE("A GPU that is a quarter slower is named, and its links are explained by it") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    FakeMachine machine(2, 4, seed);
    machine.slow_gpus[static_cast<int>(seed % 8)] = seed % 2 ? 1.25 : 20;
    const Outcome o = run(machine);
    const int rank = static_cast<int>(seed % 8);
    CHECK(titles(o) == Titles{"GPU " + std::to_string(rank % 4) + " on host" + std::to_string(rank / 4) + " (rank " +
                              std::to_string(rank) + ") is slow"});
    CHECK(exit_status(o) == exit_suspect);
    CHECK(o.incidents[0].fault == FaultClass::s1_computation_slow);
  }
}

TEST_CASE("A path between two hosts at half its speed is the link, not a network device") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    FakeMachine machine(4, 2, seed);
    machine.slow_paths[{"host1", "host2"}] = 2;
    const Outcome o = run(machine);
    REQUIRE(o.incidents.size() == 1);
    const Culprit& c = o.incidents[0].culprits[0];
    CHECK(c.component == Component::link);
    CHECK(c.host == "host1");
    CHECK(c.peer_host == "host2");
    CHECK(o.incidents[0].confidence > 0.9);
  }
}

TEST_CASE("A network device that sends or receives slowly is named, not its links") {
  for (unsigned seed = 1; seed <= 40; ++seed) {
    FakeMachine machine(3 + static_cast<int>(seed % 2), 2, seed);
    (seed % 3 ? machine.slow_sending : machine.slow_receiving)["host1"] = 3;
    const Outcome o = run(machine);
    REQUIRE(o.incidents.size() == 1);
    const Culprit& c = o.incidents[0].culprits[0];
    CHECK(c.component == Component::nic);
    CHECK(c.host == "host1");
    CHECK(c.net_name == "mlx5_0");
  }
}

TEST_CASE("Between two hosts nobody can tell a device from a path, and the reason says so") {
  FakeMachine machine(2, 2, 1);
  machine.slow_sending["host0"] = 4;
  const Outcome o = run(machine);
  REQUIRE(o.incidents.size() == 1);
  CHECK(o.incidents[0].culprits[0].component == Component::link);
  CHECK(o.incidents[0].culprits[0].reason.find("no third host") != std::string::npos);
  CHECK(o.incidents[0].confidence < 0.9);
}

TEST_CASE("A slow link within a host is named by its ranks") {
  FakeMachine machine(1, 8, 1);
  machine.slow_links[{3, 4}] = 2;
  CHECK(titles(run(machine)) == Titles{"link rank 3 -> rank 4 is slow"});
}

TEST_CASE("One slow run among several accuses nobody") {
  class Once : public FakeMachine {
   public:
    using FakeMachine::FakeMachine;
    Answers perform(const Step& s) override {
      if (s.kind == StepKind::gpu_check && s.check == Check::gemm && ++runs_ == 1) slow_gpus[2] = 3;
      Answers out = FakeMachine::perform(s);
      slow_gpus.clear();
      return out;
    }

   private:
    int runs_ = 0;
  };
  Once machine(1, 4, 1);
  CHECK(exit_status(run(machine)) == exit_healthy);
}

TEST_CASE("What all GPUs lost together is told by their past") {
  FakeMachine before(1, 4, 1), now(1, 4, 2);
  const Past past = past_of(run(before));
  CHECK(past.size() == 4 * 4 + 7);  // four checks of each GPU; a ring of four links, its chain the other way
  CHECK(exit_status(run(now, past)) == exit_healthy);
  for (int r = 0; r < 4; ++r) now.slow_gpus[r] = 2;
  CHECK(run(now).incidents.empty());
  const Outcome o = run(now, past);
  CHECK(o.incidents.size() == 4);
  CHECK(o.incidents[0].culprits[0].basis == Basis::past);
}

TEST_CASE("What is suspect does not become a past") {
  FakeMachine machine(1, 4, 1);
  machine.slow_gpus[1] = 2;
  for (const auto& [key, ms] : past_of(run(machine))) CHECK(key.bus_id != "0000:11:00.0");
}

TEST_CASE("A single GPU without a past is not measured, which is not healthy") {
  FakeMachine machine(1, 1, 1);
  const Outcome o = run(machine);
  CHECK(exit_status(o) == exit_not_measured);
  CHECK(outcome_text(o, false).find("no peer of its kind, and no past") != std::string::npos);
}

TEST_CASE("Where most repetitions are disturbed nothing is accused, and it is not called healthy") {
  FakeMachine machine(1, 4, 1);
  machine.disturbed = 0.5;
  const Outcome o = run(machine);
  CHECK(o.incidents.empty());
  CHECK(exit_status(o) == exit_not_measured);
}

TEST_CASE("What takes far longer than its peers is not called healthy because repetitions differ") {
  int named = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    FakeMachine healthy(4, 1, seed), slow(4, 1, seed);
    healthy.noise = slow.noise = 2;
    slow.slow_paths[{"host1", "host2"}] = 3;
    CHECK(run(healthy).incidents.empty());
    const Outcome o = run(slow);
    CHECK(exit_status(o) != exit_healthy);
    named += exit_status(o) == exit_suspect;
  }
  CHECK(named >= 20);  // alone, and again, most can be told
}

TEST_CASE("A rank that does not answer ends it, and is named with its host") {
  FakeMachine machine(2, 2, 1);
  machine.silent = {3};
  const Outcome o = run(machine);
  CHECK(exit_status(o) == exit_not_measured);
  CHECK(o.failure == "rank 3 (host1) did not end 'communicator initialization' within 60 s");
}

TEST_CASE("A link over which nothing arrives is a verdict, by its two ends") {
  FakeMachine machine(2, 2, 1);
  machine.hung = {{1, 2}};
  const Outcome o = run(machine);
  CHECK(titles(o) == Titles{"nothing arrives over link rank 1 -> rank 2"});
  CHECK(o.incidents[0].fault == FaultClass::h3_hardware);
  CHECK(exit_status(o) == exit_suspect);
}

TEST_CASE("A link to a rank that does not answer, or has failed by itself, is not accused") {
  FakeMachine stopped(2, 2, 1);
  stopped.hung = {{1, 2}};
  stopped.silent_in_passes = {2};
  const Outcome o = run(stopped);
  CHECK(titles(o) == Titles{});
  CHECK(exit_status(o) == exit_not_measured);
  CHECK(o.failure.find("rank 2 (host1) did not end 'pass ") == 0);

  FakeMachine failed(2, 2, 1);
  failed.hung = {{1, 2}};
  failed.failed_in_passes = {2};
  CHECK(run(failed).failure == "rank 2 on host1: out of memory");
}

// Processor time in seconds.
double judging_s(int ranks) {
  Measured m;
  for (int rank = 0; rank < ranks; ++rank) {
    Member member;
    member.rank = rank;
    member.host = "host" + std::to_string(rank / 8);
    member.model = "fake";
    m.members.push_back(member);
    Sample sample;
    sample.rank = rank;
    for (int i = 0; i < 10; ++i) sample.ms.push_back(5 + rank * 7 % 13 * 0.001 + i * 0.001);
    m.samples.push_back(sample);
  }
  const std::clock_t begin = std::clock();
  CHECK(judge(m, {}, {}).size() == static_cast<size_t>(ranks));
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

TEST_CASE("Ten thousand GPUs are judged in a moment: they hold up a job meanwhile") {
  CHECK(judging_s(10'000) < 2);  // 0.02; it was 15 as long as each was compared with each
}

TEST_CASE("The number of steps does not grow with the ranks") {
  std::set<int> steps;
  for (const int hosts : {4, 16, 64, 256}) {
    FakeMachine machine(hosts, 2, 1);
    run(machine);
    steps.insert(machine.steps);
  }
  CHECK(steps.size() == 1);
}

TEST_CASE("The document has verdicts as everywhere, with their source") {
  FakeMachine machine(1, 4, 1);
  machine.slow_gpus[1] = 2;
  const report::Json document = outcome_json(run(machine));
  CHECK(document["verdict"] == "suspect");
  CHECK(document["incidents"][0]["source"] == "ccld-validate");
  CHECK(document["incidents"][0]["class"] == "S1");
  CHECK(document["incidents"][0]["culprits"][0]["condition"] == "gpu_slow");
  CHECK(document["incidents"][0]["evidence"][0]["kind"] == "check_time");
  CHECK(document["rows"].size() == 4 * 4 + 7);
}

}  // namespace
}  // namespace ccld::decision::validate
