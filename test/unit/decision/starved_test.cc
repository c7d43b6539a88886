// Of what stands still because those that would move it have no processor the cause is who keeps it from one.
#include <catch2/catch.hpp>

#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::HangPlan;

namespace {

// Eight processes on two hosts that say each second for how long a thread that moves steps was ready and hardly ran: a
// progress thread, and one of the GPU.
class Job {
 public:
  Job() : comm(cluster.add_comm_of_all(abi::Algorithm::ring)) { comm.rounds(30); }
  void starves(int process, double part) { processes_[process].part = part; }
  void host_starves(int node, double part) {
    for (int p = 4 * node; p < 4 * node + 4; ++p) starves(p, part);
  }
  void has_gpu_threads(bool has) { gpu_threads_ = has; }
  void says_nothing(int process, bool silent = true) { processes_[process].silent = silent; }
  void threads_stopped(int process) { processes_[process].threads_stopped = true; }
  void run_s(int seconds) {
    for (int s = 0; s < seconds; ++s) {
      for (size_t p = 0; p < 8; ++p) tell(static_cast<int>(p), processes_[p]);
      cluster.run_s(1);
    }
  }
  Incident only(FaultClass fault = FaultClass::h3_hardware) const {
    const auto open = cluster.open_incidents();
    INFO(text(open));
    REQUIRE(open.size() == 1);
    CHECK(open[0].fault == fault);
    return open[0];
  }
  Cluster cluster;
  Comm& comm;

 private:
  struct Process {
    double part = 0, ns = 0;
    bool silent = false, threads_stopped = false;
  };
  void tell(int at, Process& p) {
    p.ns += p.part * ns_per_s;
    if (p.silent) return;
    Metrics m;
    m.metrics = {{abi::MetricId::process_main_run_delay_ns, "", 1},
                 {abi::MetricId::process_proxy_run_delay_ns, "", 1 + static_cast<int64_t>(p.ns)},
                 {abi::MetricId::process_starved_ns, "", static_cast<int64_t>(p.ns)},
                 {abi::MetricId::process_gpu_starved_ns, "", gpu_threads_ ? static_cast<int64_t>(p.ns) : 0},
                 {abi::MetricId::process_threads_stopped, "", p.threads_stopped ? 1 : 0}};
    cluster.send(at, {m});
  }
  Process processes_[8];
  bool gpu_threads_ = true;
};

HangPlan frozen_channel(int rank) {
  HangPlan plan;
  plan.channels[1].stop_after[rank] = 9;
  return plan;
}

HangPlan cut_edge() {
  HangPlan plan;
  for (int c : {0, 1}) plan.channels[c].cut.insert({3, 4});
  return plan;
}

HangPlan stuck_proxy(int rank) {
  HangPlan plan;
  plan.proxy_stuck.insert(rank);
  for (int c : {0, 1}) {
    plan.channels[c].cut.insert({rank, (rank + 1) % 8});
    plan.channels[c].cut_after = 2;
  }
  return plan;
}

HangPlan begun_in_part(int rank) {
  HangPlan plan;
  plan.channels[1].absent.insert(rank);
  return plan;
}

bool lacks_processor(const Incident& i) {
  return std::any_of(i.culprits.begin(), i.culprits.end(),
                     [](const Culprit& c) { return c.condition == Condition::processors_short; });
}

}  // namespace

TEST_CASE("Who lacks a processor is suspected in time, and what stands is confirmed when he runs and nothing moves") {
  Job job;
  int rank = 5;
  SECTION("a kernel") {
    job.comm.hang(frozen_channel(5));
    job.starves(5, 0.8);
  }
  SECTION("a kernel that has begun on some channels") {
    job.comm.hang(begun_in_part(5));
    job.starves(5, 0.8);
  }
  SECTION("a proxy") {
    job.comm.hang(stuck_proxy(3));
    job.starves(3, 0.8);
    rank = 3;
  }
  SECTION("a process that does not even get to say so, on a host that lacks processors") {
    job.comm.hang(frozen_channel(5));
    job.host_starves(1, 0.8);
    job.says_nothing(5);
  }
  job.run_s(25);
  const Incident early = job.only();
  CHECK(early.state == VerdictState::suspected);
  CHECK(early.suspected_ns - early.onset_ns < 7 * ns_per_s);
  CHECK(ranks_of(early.culprits) == std::set<int>{rank});
  CHECK(lacks_processor(early));
  job.host_starves(0, 0);
  job.host_starves(1, 0);
  job.run_s(40);
  const Incident late = job.only();
  CHECK(late.state == VerdictState::confirmed);
  CHECK(ranks_of(late.culprits) == std::set<int>{rank});
  CHECK_FALSE(lacks_processor(late));
}

TEST_CASE("Who never gets a processor is confirmed in the end: the host, or the process that waits alone") {
  Job job;
  job.comm.hang(stuck_proxy(3));
  Component component = Component::host;
  SECTION("all processes of the host wait") { job.host_starves(0, 0.9); }
  SECTION("its neighbours do not wait") {
    job.starves(3, 0.9);
    component = Component::process;
  }
  job.run_s(310);
  const Incident i = job.only();
  CHECK(i.state == VerdictState::confirmed);
  REQUIRE(i.culprits.size() == 1);
  CHECK(i.culprits[0].rank == Rank{3});
  CHECK(i.culprits[0].component == component);
}

TEST_CASE(
    "What stands still although those that would move it run is confirmed at once, whoever else lacks processors") {
  Job job;
  SECTION("nobody lacks any") { job.comm.hang(frozen_channel(5)); }
  SECTION("for less than half of the time") {
    job.comm.hang(frozen_channel(5));
    job.host_starves(1, 0.3);
  }
  SECTION("another process of its host") {
    job.comm.hang(frozen_channel(5));
    job.starves(6, 0.9);
  }
  SECTION("its progress threads, which a GPU that is no thread does not need") {
    job.has_gpu_threads(false);
    job.comm.hang(frozen_channel(5));
    job.starves(5, 0.9);
  }
  SECTION("neither end of the edge") {
    job.comm.hang(cut_edge());
    job.starves(6, 0.9);
    job.starves(1, 0.9);
  }
  SECTION("its threads are stopped besides") {
    job.comm.hang(frozen_channel(5));
    job.starves(5, 0.9);
    job.threads_stopped(5);
  }
  SECTION("before it stood still") {
    job.starves(5, 0.9);
    job.run_s(20);
    job.comm.rounds(1);
    job.starves(5, 0);
    job.comm.hang(frozen_channel(5));
  }
  job.run_s(16);
  const Incident i = job.only();
  CHECK(i.state == VerdictState::confirmed);
  CHECK_FALSE(lacks_processor(i));
}

TEST_CASE("Neither a link whose proxies poll nor the other end of a stuck proxy is called a lack of processors") {
  Job job;
  SECTION("the other end has done its part") {
    job.comm.hang(stuck_proxy(3));
    job.starves(4, 0.9);
    job.starves(2, 0.9);
  }
  SECTION("the proxies poll nevertheless") {
    job.comm.hang(cut_edge());
    job.host_starves(0, 0.9);
    job.host_starves(1, 0.9);
  }
  job.run_s(25);
  Incident i = job.only();
  CHECK(i.state == VerdictState::suspected);
  CHECK(ranks_of(i.culprits) == std::set<int>{3});
  CHECK_FALSE(lacks_processor(i));
  job.run_s(290);
  i = job.only();
  CHECK(i.state == VerdictState::confirmed);
  CHECK_FALSE(lacks_processor(i));
}

TEST_CASE("A kernel that was launched and whose GPU's threads get no processor is not named for not having started") {
  Job job;
  HangPlan plan;
  plan.launched_only.insert(5);
  job.comm.hang(plan);
  job.host_starves(1, 0.9);
  job.run_s(20);
  const Incident early = job.only(FaultClass::h1_not_entered);
  CHECK(ranks_of(early.culprits) == std::set<int>{5});
  CHECK(lacks_processor(early));
  job.host_starves(1, 0);
  job.run_s(30);
  const Incident late = job.only(FaultClass::h1_not_entered);
  CHECK(ranks_of(late.culprits) == std::set<int>{5});
  CHECK_FALSE(lacks_processor(late));
}

TEST_CASE("Whether threads got a processor is waited for as long as it may yet be told") {
  Job job;
  job.run_s(5);
  job.comm.hang(frozen_channel(5));
  job.says_nothing(5);
  SECTION("two looks since it stands tell it") {
    job.run_s(8);
    job.says_nothing(5, false);
    job.run_s(1);
    job.says_nothing(5);
    job.run_s(3);
    CHECK(job.only().state == VerdictState::suspected);
    job.says_nothing(5, false);
    job.run_s(2);
    CHECK(job.only().state == VerdictState::confirmed);
  }
  SECTION("what hangs may have caught the thread that looks") {
    job.run_s(12);
    CHECK(job.only().state == VerdictState::confirmed);
  }
}

TEST_CASE("What gets on and stands anew keeps its verdict until it has stood for a while") {
  Job job;
  job.comm.hang(frozen_channel(5));
  job.run_s(8);
  CHECK(ranks_of(job.only().culprits) == std::set<int>{5});
  HangPlan further;
  further.channels[1].stop_after[2] = 15;
  job.comm.hang_further(further);
  for (int i = 0; i < 8; ++i) {
    job.cluster.run_s(0.1);
    CHECK(ranks_of(job.only().culprits) == std::set<int>{5});
  }
  job.run_s(4);
  CHECK(ranks_of(job.only().culprits) == std::set<int>{2});
}

TEST_CASE("What a rank has done since its last word is no hard evidence") {
  Job job;
  SECTION("a kernel") { job.comm.hang(frozen_channel(5)); }
  SECTION("an edge") { job.comm.hang(cut_edge()); }
  const int quiet = GENERATE(4, 5);
  job.run_s(7);
  job.cluster.lose_telemetry(4, true);
  job.cluster.lose_telemetry(5, true);
  job.run_s(quiet);
  CHECK(job.only().state == VerdictState::suspected);
  job.cluster.lose_telemetry(4, false);
  job.cluster.lose_telemetry(5, false);
  job.run_s(5);
  CHECK(job.only().state == VerdictState::confirmed);
}

TEST_CASE("A process that is stopped or gone is lost, however short of processors its host is") {
  Job job;
  HangPlan plan;
  for (int c : {0, 1}) plan.channels[c].stop_after[6] = 5;
  job.comm.hang(plan);
  job.host_starves(1, 0.9);
  job.run_s(1);
  const bool gone = GENERATE(true, false);
  gone ? job.cluster.kill_process(6) : job.cluster.stop_process(6);
  job.run_s(4);
  const Incident i = job.only();
  CHECK(i.state == VerdictState::confirmed);
  CHECK(ranks_of(i.culprits) == std::set<int>{6});
}

}  // namespace ccld::decision
