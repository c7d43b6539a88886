#include "decision/analyzer.h"

#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::ClusterOptions;
using fake::Comm;
using fake::HangPlan;
using fake::RoundShape;

TEST_CASE("A healthy job is silent whatever the telemetry channel does to its reports") {
  const uint64_t seed = GENERATE(range(1, 9));
  ClusterOptions options;
  options.seed = seed;
  options.loss = seed % 2 ? 0.05 : 0;
  options.duplicates = 0.1;
  options.delay_max_ns = seed % 3 * 400 * ns_per_ms;
  Cluster cluster({}, options);
  Comm& comm = cluster.add_comm_of_all(seed % 2 ? abi::Algorithm::ring : abi::Algorithm::tree);
  RoundShape shape;
  shape.jitter_ns = 5 * ns_per_ms;
  comm.rounds(1500, shape);
  cluster.run_s(60);
  INFO("seed " << seed << '\n' << text(cluster.reported()));
  CHECK(cluster.reported().empty());
}

TEST_CASE("Hangs are located through a channel that loses, repeats, delays and reorders") {
  const uint64_t seed = GENERATE(range(1, 13));
  ClusterOptions options;
  options.seed = seed;
  options.loss = 0.1;
  options.duplicates = 0.1;
  options.delay_max_ns = 600 * ns_per_ms;
  Cluster cluster({}, options);
  const auto algorithm = seed % 2 ? abi::Algorithm::ring : abi::Algorithm::tree;
  Comm& comm = cluster.add_comm_of_all(algorithm);
  RoundShape shape;
  shape.signature = fake::all_reduce(1 << 16, algorithm);
  comm.rounds(100, shape);
  HangPlan plan;
  plan.signature = shape.signature;
  const int rank = static_cast<int>(seed * 5 % 8);
  const bool h1 = seed % 3 == 0;
  if (h1)
    plan.not_called = {rank};
  else
    plan.channels[seed % 2].stop_after[rank] = static_cast<int>(seed % 11);
  comm.hang(plan);
  cluster.run_s(40);
  const auto open = cluster.open_incidents();
  INFO("seed " << seed << " rank " << rank << '\n' << text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].fault == (h1 ? FaultClass::h1_not_entered : FaultClass::h3_hardware));
  CHECK(ranks_of(open[0].culprits) == std::set<int>{rank});
}

TEST_CASE("An incident is reported when it changes and not otherwise") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  HangPlan plan;
  plan.not_called = {5};
  comm.hang(plan);
  cluster.run_s(1000);
  CHECK(cluster.incidents().size() == 1);
  CHECK(cluster.reported().size() == 2);  // suspected, confirmed
  comm.recover();
  comm.rounds(10);
  cluster.run_s(2);
  REQUIRE(cluster.reported().size() == 3);
  const Incident& last = cluster.reported().back();
  CHECK(last.state == VerdictState::resolved);
  CHECK(last.onset_ns < last.suspected_ns);
  CHECK(last.suspected_ns < last.confirmed_ns);
  CHECK(last.confirmed_ns < last.resolved_ns);
}

TEST_CASE("Status tells what is in flight, for how long, and on whom nothing is known") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  cluster.run_s(0.5);
  HangPlan plan;
  plan.not_called = {5};
  comm.hang(plan);
  cluster.stop_process(5);
  cluster.run_s(10);
  const StatusView view = cluster.analyzer().status(cluster.now_ns());
  REQUIRE(view.communicators.size() == 1);
  const CommStatus& s = view.communicators[0];
  CHECK(s.rank_count == 8);
  CHECK(s.ranks_seen == 8);
  CHECK(s.in_flight);
  CHECK(s.oldest_op == OpSeq{31});
  CHECK(s.completed_min == OpSeq{30});
  CHECK(s.rounds == 30);
  CHECK(s.oldest_signature.function == abi::Function::all_reduce);
  CHECK(s.oldest_age_ns / ns_per_s >= 9);
  CHECK(s.oldest_age_ns / ns_per_s <= 10);
  CHECK(s.ranks[5].process_state == 'T');
  CHECK(s.ranks[5].entered == OpSeq{30});
  CHECK(view.processes.size() == 8);
  CHECK(view.incidents_open == 1);
}

TEST_CASE("Telemetry that begins in the middle of a job is enough") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  for (int p = 0; p < 8; ++p) cluster.lose_telemetry(p, true);
  comm.rounds(3000);
  for (int p = 0; p < 8; ++p) cluster.lose_telemetry(p, false);
  comm.announce();
  comm.rounds(30);
  CHECK(cluster.reported().empty());
  HangPlan plan;
  plan.channels[1].stop_after[2] = 3;
  comm.hang(plan);
  cluster.run_s(20);
  REQUIRE(cluster.open_incidents().size() == 1);
  CHECK(ranks_of(cluster.open_incidents()[0].culprits) == std::set<int>{2});
}

TEST_CASE("Communicators and processes that have gone are forgotten, and their incidents end") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  HangPlan plan;
  plan.not_called = {5};
  comm.hang(plan);
  cluster.run_s(10);
  REQUIRE(cluster.open_incidents().size() == 1);
  cluster.silence_all();
  cluster.run_s(700);
  CHECK(cluster.analyzer().status(cluster.now_ns()).communicators.empty());
  CHECK(cluster.analyzer().status(cluster.now_ns()).processes.empty());
  CHECK(cluster.open_incidents().empty());
}

TEST_CASE("Many communicators that come and go do not accumulate") {
  Settings settings;
  settings.communicators_max = 10;
  Cluster cluster(settings);
  for (int i = 0; i < 40; ++i) {
    Comm& comm = cluster.add_comm({0, 1, 2, 3});
    comm.rounds(3);
    cluster.run_s(1);
  }
  CHECK(cluster.analyzer().status(cluster.now_ns()).communicators.size() <= 10);
  CHECK(cluster.reported().empty());
}

TEST_CASE("Status and verdict name the same operation, whatever a stopped rank said last") {
  Cluster cluster;
  Comm& comm = cluster.add_comm_of_all();
  comm.rounds(30);
  comm.hang({});
  cluster.run_s(0.5);       // all say that they are in it
  cluster.stop_process(3);  // and one of them never says that it ended
  comm.recover();
  HangPlan plan;
  plan.not_called = {3};
  comm.hang(plan);
  cluster.run_s(20);
  const auto open = cluster.open_incidents();
  INFO(text(open));
  REQUIRE(open.size() == 1);
  CHECK(open[0].op.value == comm.op());
  const StatusView status = cluster.analyzer().status(cluster.now_ns());
  REQUIRE(status.communicators.size() == 1);
  CHECK(status.communicators[0].in_flight);
  CHECK(status.communicators[0].oldest_op == open[0].op);
  CHECK(status.communicators[0].oldest_age_ns > 10 * ns_per_s);
}

TEST_CASE("A process that ends all its communicators has finished, one that falls silent before has not") {
  Cluster cluster;
  Comm& all = cluster.add_comm_of_all();
  Comm& some = cluster.add_comm({0, 1});
  all.rounds(20);
  some.rounds(20);
  const auto finished = [&] {
    std::set<uint32_t> pids;
    for (const ProcessStatus& p : cluster.analyzer().status(cluster.now_ns()).processes)
      if (p.has_finished) pids.insert(p.process.pid);
    return pids.size();
  };
  for (int r = 0; r < 7; ++r) all.leave(r);
  cluster.run_s(2);
  CHECK(finished() == 5);  // 0 and 1 have another communicator, 7 this one
  some.leave(0), some.leave(1);
  cluster.run_s(2);
  CHECK(finished() == 7);
  all.leave(7);
  cluster.run_s(2);
  CHECK(finished() == 8);
  cluster.silence_all();
  cluster.run_s(30);  // the communicators are forgotten meanwhile
  CHECK(cluster.analyzer().status(cluster.now_ns()).communicators.empty());
  CHECK(finished() == 8);
}

}  // namespace ccld::decision
