#include <catch2/catch.hpp>

#include <numeric>
#include <random>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::RoundShape;
using fake::Stage;

namespace {

// Four processes: tensor groups {0, 1} and {2, 3}, data groups {0, 2} and {1, 3}. In each step a tensor round of each
// group and then a data round of each.
struct Job {
  explicit Job(double loss = 0) : cluster(Settings{}, fake::ClusterOptions{4, 2, 1, loss}) {}
  Cluster cluster;
  Comm& tensor0 = cluster.add_comm({0, 1});
  Comm& tensor1 = cluster.add_comm({2, 3});
  Comm& data0 = cluster.add_comm({0, 2});
  Comm& data1 = cluster.add_comm({1, 3});

  // `first`: what the first tensor group does.
  void steps(int n, const RoundShape& first = {}) {
    RoundShape data;
    data.comm_ns = 8 * ns_per_ms;
    data.gap_ns = [](int, uint64_t) { return ns_per_ms; };
    for (int i = 0; i < n; ++i) {
      tensor1.rounds(1);
      tensor0.rounds(1, first);
      data0.rounds(1, data);
      data1.rounds(1, data);
    }
  }
};

constexpr Nanoseconds by = 40 * ns_per_ms;

// Of three rounds and a larger one each. Rank 3 is late by `late`.
void iterations(Comm& comm, int n, Nanoseconds gap, Nanoseconds late = 0) {
  RoundShape first, second;
  first.gap_ns = second.gap_ns = [=](int r, uint64_t) { return gap + (r == 3 ? late : 0); };
  second.signature = fake::all_reduce(1 << 20);
  for (int i = 0; i < n; ++i) {
    comm.rounds(3, first);
    comm.rounds(1, second);
  }
}

RoundShape second_rank_late() {
  RoundShape shape;
  shape.gap_ns = [](int r, uint64_t) { return 10 * ns_per_ms + (r == 1 ? by : 0); };
  return shape;
}

RoundShape slow_link() {
  RoundShape shape;
  shape.comm_ns = by;
  shape.stage_ns[{Edge{0, 1, 0}, Stage::gpu_to_gpu}] = 10 * ns_per_ms;
  return shape;
}

}  // namespace

TEST_CASE("A rank that is slow in its tensor group is one incident, although data groups wait for it too") {
  Job job;
  job.steps(300);
  CHECK(job.cluster.reported().empty());
  job.steps(500, second_rank_late());
  const auto all = job.cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].state == VerdictState::confirmed);
  CHECK(all[0].fault == FaultClass::s1_computation_slow);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == 101);
  CHECK_FALSE(all[0].victim_comms.empty());
}

TEST_CASE("A slow link of a tensor group makes data groups its victims, not findings") {
  Job job;
  job.steps(300);
  job.steps(800, slow_link());
  const auto all = job.cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].comm == job.tensor0.uid());
  CHECK(all[0].fault == FaultClass::s2_communication_slow);
}

TEST_CASE("One incident ends when all communicators that named its cause are well again") {
  Job job;
  job.steps(300);
  job.steps(500, second_rank_late());
  REQUIRE(job.cluster.open_incidents().size() == 1);
  job.steps(1000);
  INFO(text(job.cluster.incidents()));
  CHECK(job.cluster.open_incidents().empty());
  CHECK(job.cluster.incidents().size() == 1);
}

TEST_CASE("Two causes in two groups are two incidents") {
  Cluster cluster(Settings{}, fake::ClusterOptions{8, 4});
  Comm& a = cluster.add_comm({0, 1, 2, 3});
  Comm& b = cluster.add_comm({4, 5, 6, 7});
  const auto steps = [&](int n, int late_a, int late_b) {
    const auto shape = [](int late) {
      RoundShape s;
      s.gap_ns = [=](int r, uint64_t) { return 10 * ns_per_ms + (r == late ? by : 0); };
      return s;
    };
    for (int i = 0; i < n; ++i) {
      a.rounds(1, shape(late_a));
      b.rounds(1, shape(late_b));
    }
  };
  steps(800, -1, -1);
  steps(800, 1, 2);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 2);
  CHECK(ranks_of(open[0].culprits) != ranks_of(open[1].culprits));
  for (const Incident& i : open) {
    CHECK(i.gain.known());
    CHECK(i.gain.without_ns < i.gain.now_ns);
  }
}

TEST_CASE("A proxy that delays in two communicators is one cause, and the ranks that one of them keeps are not late") {
  Cluster cluster(Settings{}, fake::ClusterOptions{8, 2});
  Comm& world = cluster.add_comm_of_all();
  Comm& data = cluster.add_comm({1, 3, 5, 7});
  const auto steps = [&](int n, bool delays) {
    RoundShape of_world, of_data;
    if (delays) {
      of_world.comm_ns = 60 * ns_per_ms;
      of_data.comm_ns = 80 * ns_per_ms;
      of_world.stage_ns[{Edge{3, 4, 0}, Stage::sender_proxy}] = 20 * ns_per_ms;
      of_data.stage_ns[{Edge{1, 2, 0}, Stage::sender_proxy}] = 20 * ns_per_ms;
    }
    for (int i = 0; i < n; ++i) {
      data.rounds(1, of_data);
      world.rounds(1, of_world);
    }
  };
  steps(400, false);
  steps(400, true);
  const auto all = cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].fault == FaultClass::s2_communication_slow);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == 103);
  CHECK(all[0].culprits[0].component == Component::proxy);
}

TEST_CASE("A proxy explains what is slow on another connection of its process, whoever notices first") {
  const bool link_first = GENERATE(true, false);
  CAPTURE(link_first);
  Cluster cluster(Settings{}, fake::ClusterOptions{8, 1});
  Comm& tensor = cluster.add_comm({2, 3});
  Comm& expert = cluster.add_comm({1, 3, 5, 7});
  const auto steps = [&](int n, bool by_proxy, bool by_link) {
    RoundShape of_tensor, of_expert;
    if (by_proxy) {
      of_tensor.comm_ns = 60 * ns_per_ms;
      of_tensor.stage_ns[{Edge{1, 0, 0}, Stage::sender_proxy}] = 20 * ns_per_ms;
    }
    if (by_link) {
      of_expert.comm_ns = 80 * ns_per_ms;
      of_expert.stage_ns[{Edge{1, 2, 0}, Stage::wire}] = 20 * ns_per_ms;
    }
    for (int i = 0; i < n; ++i) {
      expert.rounds(1, of_expert);
      tensor.rounds(1, of_tensor);
    }
  };
  steps(400, false, false);
  steps(300, !link_first, link_first);
  steps(400, true, true);
  const auto all = cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == 103);
  CHECK(all[0].culprits[0].component == Component::proxy);
}

TEST_CASE("An end of a slow link that is late in its other group is kept by the link, not slow itself") {
  Job job;
  job.steps(400);
  RoundShape over_link, behind;
  over_link.comm_ns = 100 * ns_per_ms;
  over_link.stage_ns[{Edge{0, 1, 0}, Stage::wire}] = 30 * ns_per_ms;
  behind.host_late = {0};
  for (int i = 0; i < 400; ++i) {
    job.tensor0.rounds(1, behind);
    job.data0.rounds(1, over_link);
  }
  const auto all = job.cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].fault == FaultClass::s2_communication_slow);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == 100);
  CHECK(all[0].culprits[0].component == Component::link);
}

TEST_CASE("A job of which all ranks compute longer is an incident of the job, although no round is slow") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  iterations(comm, 300, 60 * ns_per_ms);
  CHECK(cluster.reported().empty());
  iterations(comm, 300, 100 * ns_per_ms);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].title.find("iteration time rose from 2") == 0);
  CHECK(open[0].fault == FaultClass::s1_computation_slow);
  CHECK(open[0].culprits.empty());
  CHECK(open[0].state == VerdictState::confirmed);
  CHECK(open[0].stage.iteration_now_ns > open[0].stage.iteration_usual_ns);
  // What was before is what would be without.
  CHECK(open[0].gain.of_iteration);
  CHECK(open[0].gain.without_ns < open[0].gain.now_ns);
  CHECK(open[0].gain.share() > 0.3);
  CHECK(open[0].stage.effect == StageEffect::critical);
  iterations(comm, 200, 60 * ns_per_ms);
  CHECK(cluster.open_incidents().empty());
}

TEST_CASE("That now this rank and now that one is suspected does not hide that all iterations take longer") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  iterations(comm, 300, 60 * ns_per_ms);
  for (int i = 0; i < 160; ++i) {
    RoundShape shape;
    const int late = i / 15 % 4;
    shape.gap_ns = [=](int r, uint64_t) { return (r == late ? 130 : 100) * ns_per_ms; };
    comm.rounds(3, shape);
    shape.signature = fake::all_reduce(1 << 20);
    comm.rounds(1, shape);
  }
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].title.find("iteration time rose from 2") == 0);
}

TEST_CASE("A rank that makes the job slow is one incident, with what it does to the iteration time") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  iterations(comm, 300, 60 * ns_per_ms);
  iterations(comm, 400, 60 * ns_per_ms, 40 * ns_per_ms);
  const auto all = cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(ranks_of(all[0].culprits) == std::set<int>{3});
  CHECK(all[0].title.empty());
  CHECK(all[0].gain.of_iteration);
  // 40 ms of four times 100 and the transfers.
  CHECK(all[0].gain.share() == Approx(0.35).margin(0.1));
  CHECK(all[0].stage.effect == StageEffect::critical);
}

namespace {

// Until something is reported: so many iterations of 40 operations each. `late_ms(rank, iteration)`: to the first one.
template <class Late>
int long_iterations(Cluster& cluster, Comm& comm, int most, Nanoseconds usual_ns, Late late_ns) {
  RoundShape first, others;
  first.signature = fake::all_reduce(1 << 22);
  others.gap_ns = [](int, uint64_t) { return ns_per_ms; };
  for (int i = 0; i < most; ++i) {
    if (!cluster.reported().empty()) return i;
    first.gap_ns = [&](int r, uint64_t) { return usual_ns + late_ns(r, i); };
    comm.rounds(1, first);
    comm.rounds(39, others);
  }
  return most;
}

}  // namespace

TEST_CASE("A rank that is late once in each long iteration is found, however many operations an iteration has") {
  for (const double loss : {0.0, 0.01})
    for (const int iteration_s : {2, 4, 12}) {
      Cluster cluster(Settings{}, fake::ClusterOptions{8, 4, 1, loss});
      const Nanoseconds usual_ns = iteration_s * ns_per_s * 5 / 6;
      const int iterations = long_iterations(cluster, cluster.add_comm_of_all(), 40, usual_ns,
                                             [&](int r, int) { return r == 3 ? usual_ns / 4 : 0; });
      INFO(iteration_s << " s, loss " << loss << " " << text(cluster.incidents()));
      CHECK(iterations <= 30);
      REQUIRE(cluster.incidents().size() == 1);
      CHECK(ranks_of(cluster.incidents()[0].culprits) == std::set<int>{3});
    }
}

TEST_CASE("Of long iterations whoever is late in turn, or now and then, is no cause") {
  for (const int iteration_s : {2, 4, 12}) {
    const Nanoseconds usual_ns = iteration_s * ns_per_s * 5 / 6;
    std::mt19937 random(7);
    Cluster moves, seldom;
    long_iterations(moves, moves.add_comm_of_all(), 150, usual_ns,
                    [&](int, int) { return static_cast<Nanoseconds>(random() % 1000) * usual_ns / 4000; });
    INFO(iteration_s << " s " << text(moves.incidents()));
    CHECK(moves.incidents().empty());
    long_iterations(seldom, seldom.add_comm_of_all(), 150, usual_ns,
                    [&](int r, int i) { return r == 0 && i % 10 == 3 ? usual_ns : 0; });
    CHECK(seldom.incidents().empty());
  }
}

TEST_CASE("What iterations take now is known of a job that was well for a few iterations only") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  iterations(comm, 22, 60 * ns_per_ms);
  iterations(comm, 60, 60 * ns_per_ms, 100 * ns_per_ms);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{3});
  CHECK(open[0].gain.of_iteration);
  CHECK(open[0].gain.now_ns == open[0].stage.iteration_now_ns);
  CHECK(open[0].stage.iteration_usual_ns == 0);
}

TEST_CASE("A group that knows of two causes tells the incident, not one that sees the late rank only and loses more") {
  Cluster cluster;
  Comm& data = cluster.add_comm_of_all();
  Comm& world = cluster.add_comm_of_all();
  const auto steps = [&](int n, const RoundShape& of_data, const RoundShape& of_world) {
    for (int i = 0; i < n; ++i) {
      data.rounds(1, of_data);
      world.rounds(1, of_world);
    }
  };
  steps(200, {}, {});
  RoundShape late;
  late.gap_ns = [](int r, uint64_t) { return (10 + (r == 1 ? 120 : 0)) * ns_per_ms; };
  RoundShape mixed;
  mixed.gap_ns = [](int r, uint64_t) { return (10 + (r == 1 ? 40 : 0)) * ns_per_ms; };
  mixed.comm_ns = 44 * ns_per_ms;
  mixed.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 20 * ns_per_ms;
  steps(300, mixed, late);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == FaultClass::s3_mixed_slow);
  CHECK(ranks_of(open[0].culprits) == std::set<int>{1, 3});
}

TEST_CASE("An incident is confirmed when a second cause that is seen has become sure, too") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  RoundShape late, both;
  late.gap_ns = both.gap_ns = [](int r, uint64_t) { return (10 + (r == 1 ? 60 : 0)) * ns_per_ms; };
  both.comm_ns = 44 * ns_per_ms;
  both.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 20 * ns_per_ms;
  const auto until_s = [&](double seconds, const RoundShape& shape) {
    const Nanoseconds end_ns = cluster.now_ns() + static_cast<Nanoseconds>(seconds * 1e9);
    while (cluster.now_ns() < end_ns) comm.rounds(1, shape);
  };
  until_s(60, {});
  CHECK(cluster.reported().empty());
  // The late rank is seen two windows before the link is.
  until_s(10, late);
  until_s(60, both);
  const auto all = cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  const auto confirmed = std::find_if(cluster.reported().begin(), cluster.reported().end(),
                                      [](const Incident& i) { return i.state == VerdictState::confirmed; });
  REQUIRE(confirmed != cluster.reported().end());
  CHECK(confirmed->fault == FaultClass::s3_mixed_slow);
  CHECK(ranks_of(confirmed->culprits) == std::set<int>{1, 3});
  // What was sure first was said first.
  CHECK(cluster.reported().front().fault == FaultClass::s1_computation_slow);
}

TEST_CASE("What shows in the place of an incident that is not confirmed is what that was about: it stays one incident") {
  RoundShape late, throttled;
  late.gap_ns = [](int r, uint64_t) { return (10 + (r == 1 ? 60 : 0)) * ns_per_ms; };
  throttled.comm_ns = 200 * ns_per_ms;
  throttled.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 100 * ns_per_ms;
  RoundShape both = throttled;
  both.gap_ns = late.gap_ns;
  int went_on = 0;
  // Whatever part of a window the rank alone was late.
  for (int alone = 0; alone < 12; ++alone) {
    Cluster cluster;
    Comm& comm = cluster.add_comm_of_all();
    const auto until_s = [&](double seconds, const RoundShape& shape) {
      const Nanoseconds end_ns = cluster.now_ns() + static_cast<Nanoseconds>(seconds * 1e9);
      while (cluster.now_ns() < end_ns) comm.rounds(1, shape);
    };
    until_s(60, {});
    until_s(0.5 * alone, late);
    while (cluster.reported().empty()) until_s(0.1, both);
    until_s(60, throttled);
    const auto& reported = cluster.reported();
    const bool was_confirmed = std::any_of(reported.begin(), reported.end(), [](const Incident& i) {
      return i.fault != FaultClass::s2_communication_slow && i.state == VerdictState::confirmed;
    });
    if (was_confirmed) continue;
    const auto all = cluster.incidents();
    INFO(alone << " " << text(all));
    REQUIRE(all.size() == 1);
    CHECK(all[0].fault == FaultClass::s2_communication_slow);
    CHECK(all[0].state == VerdictState::confirmed);
    CHECK(ranks_of(all[0].culprits) == std::set<int>{3});
    went_on += reported.front().fault == FaultClass::s1_computation_slow ? 1 : 0;
  }
  CHECK(went_on > 0);
}

TEST_CASE("Lost reports of kernels in which a rank was kept make it late in no other group") {
  Job job(0.05);
  job.steps(300);
  job.steps(700, slow_link());
  const auto all = job.cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].comm == job.tensor0.uid());
  CHECK(all[0].fault == FaultClass::s2_communication_slow);
}

TEST_CASE("A slow link of operations that few windows hold is found, and not over while they hold none of them") {
  // An iteration takes 1.2 s or more, and of each window its first 0.4 s are kept.
  Settings settings;
  settings.whatif_kernels_max = 8 * 30;
  Cluster cluster(settings, fake::ClusterOptions{8, 2});
  Comm &often = cluster.add_comm_of_all(), &seldom = cluster.add_comm({0, 2, 4, 6});
  RoundShape slow;
  const auto iterations = [&](int n, bool is_slow) {
    for (int i = 0; i < n; ++i) {
      often.rounds(77);
      seldom.rounds(6, is_slow ? slow : RoundShape{});
    }
  };
  iterations(40, false);
  CHECK(cluster.reported().empty());
  slow.comm_ns = 60 * ns_per_ms;
  slow.stage_ns[{Edge{1, 2, 0}, Stage::sender_nic}] = 20 * ns_per_ms;
  iterations(250, true);
  auto all = cluster.open_incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].state == VerdictState::confirmed);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == 102u);
  often.rounds(4000);  // the job generates, and trains no more for a minute
  CHECK(cluster.open_incidents().size() == 1);
  iterations(150, false);
  CHECK(cluster.open_incidents().empty());
}

TEST_CASE("A job that comes when others have taken all GPUs that are looked at has its share of them") {
  Settings settings;
  settings.whatif_gpus_max = 24;
  fake::ClusterOptions options{32, 4};
  options.processes_per_job = 16;
  Cluster cluster(settings, options);
  const auto of = [](int first) {
    std::vector<int> all(16);
    std::iota(all.begin(), all.end(), first);
    return all;
  };
  Comm &first = cluster.add_comm(of(0)), &second = cluster.add_comm(of(16));
  RoundShape slow;
  slow.gap_ns = [](int r, uint64_t) { return 10 * ns_per_ms + (r == 5 ? by : 0); };
  const int slow_job = GENERATE(0, 1);
  CAPTURE(slow_job);
  first.rounds(300);
  const auto steps = [&](int n, bool is_slow) {
    for (int i = 0; i < n; ++i) {
      first.rounds(1, is_slow && slow_job == 0 ? slow : RoundShape{});
      second.rounds(1, is_slow && slow_job == 1 ? slow : RoundShape{});
    }
  };
  steps(1000, false);
  CHECK(cluster.reported().empty());
  steps(2000, true);
  const auto all = cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].state == VerdictState::confirmed);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == (slow_job == 0 ? 105u : 121u));
}

TEST_CASE("A job with more GPUs than are looked at is looked at where it waits, and in its slowest network") {
  Settings settings;
  settings.whatif_gpus_max = 8;
  Cluster cluster(settings, fake::ClusterOptions{16, 2});
  std::vector<Comm*> tensor, data;
  for (int g = 0; g < 4; ++g) tensor.push_back(&cluster.add_comm({4 * g, 4 * g + 1, 4 * g + 2, 4 * g + 3}));
  for (int g = 0; g < 4; ++g) data.push_back(&cluster.add_comm({g, g + 4, g + 8, g + 12}));
  RoundShape slow;
  int slow_tensor = -1, slow_data = -1;
  const bool late = GENERATE(true, false);
  CAPTURE(late);
  const auto steps = [&](int n) {
    for (int i = 0; i < n; ++i) {
      for (int g = 0; g < 4; ++g) tensor[g]->rounds(1, g == slow_tensor ? slow : RoundShape{});
      for (int g = 0; g < 4; ++g) data[g]->rounds(1, g == slow_data ? slow : RoundShape{});
    }
  };
  steps(1500);
  CHECK(cluster.reported().empty());
  if (late) {
    slow.gap_ns = [](int r, uint64_t) { return 10 * ns_per_ms + (r == 1 ? by : 0); };
    slow_tensor = 2;  // process 9
  } else {
    slow.comm_ns = 60 * ns_per_ms;
    slow.stage_ns[{Edge{1, 2, 0}, Stage::sender_nic}] = 20 * ns_per_ms;
    slow_data = 3;  // processes 7 and 11
  }
  steps(2000);
  const auto all = cluster.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  CHECK(all[0].state == VerdictState::confirmed);
  REQUIRE(all[0].culprits.size() == 1);
  CHECK(all[0].culprits[0].pid == (late ? 109u : 107u));
  CHECK(all[0].culprits[0].component == (late ? Component::gpu : Component::nic));
}

}  // namespace ccld::decision
