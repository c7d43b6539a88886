#include "decision/locate/busy_host.h"

#include <catch2/catch.hpp>

#include "decision/analysis/slow_confidence.h"
#include "test/unit/decision/verdicts.h"

namespace ccld::decision {

using fake::Cluster;
using fake::Comm;
using fake::RoundShape;
using fake::Stage;

namespace {

// Eight processes on two hosts that say how long they waited for a processor.
class Job {
 public:
  explicit Job(int processes = 8, int each_node = 4)
      : cluster(quick(), {processes, each_node}), comm(cluster.add_comm_of_all()), delays_(processes) {}

  // Of the time, from now on.
  void waits(int process, double main, double proxies, double throttled = 0) {
    delays_[process].part[0] = main, delays_[process].part[1] = proxies, delays_[process].part[2] = throttled;
  }
  // How long its progress threads run; where no process says so it is not known of any.
  void proxies_run(int process, double part) { delays_[process].part[3] = part, runs_told_ = true; }
  void host_waits(int node, double main, double proxies) {
    for (int p = 4 * node; p < 4 * node + 4; ++p) waits(p, main, proxies);
  }
  void rounds(int n, const RoundShape& shape = {}) {
    for (int i = 0; i < n; ++i) {
      comm.rounds(1, shape);
      if (cluster.now_ns() - told_ns_ >= ns_per_s) tell();
    }
  }
  bool silent = false;  // the kernels do not count
  Cluster cluster;
  Comm& comm;

 private:
  static Settings quick() {
    Settings s;
    s.slow_window_s = 4;
    return s;
  }
  void tell() {
    for (size_t p = 0; p < delays_.size(); ++p) {
      for (int i = 0; i < 4; ++i)
        delays_[p].ns[i] += delays_[p].part[i] * static_cast<double>(told_ns_ == 0 ? 0 : cluster.now_ns() - told_ns_);
      const auto at = [&](int i) { return static_cast<int64_t>(delays_[p].ns[i]); };
      Metrics m;
      m.metrics = {{abi::MetricId::process_main_run_delay_ns, "", at(0)},
                   {abi::MetricId::process_proxy_run_delay_ns, "", 1000 + at(1)},
                   {abi::MetricId::cgroup_throttled_us, "", at(2) / 1000}};
      if (runs_told_) {
        m.metrics.push_back({abi::MetricId::process_main_run_ns, "", 1000});
        m.metrics.push_back({abi::MetricId::process_proxy_run_ns, "", 1000 + at(3)});
      }
      if (p == 0) m.metrics.push_back({abi::MetricId::pressure_cpu_some_us, "", at(1) / 1000});
      if (!silent) cluster.send(static_cast<int>(p), {m});
    }
    told_ns_ = cluster.now_ns();
  }
  struct Delay {
    double part[4] = {0.01, 0.02, 0, 0};
    double ns[4] = {};
  };
  std::vector<Delay> delays_;
  Nanoseconds told_ns_ = 0;
  bool runs_told_ = false;
};

// The proxy of rank 3 has work for 50 ms of 60, and does not look.
RoundShape away_proxy() {
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::sender_nic}] = 20 * ns_per_ms;
  shape.away_ns[{Edge{3, 4, 0}, abi::Direction::send}] = 50 * ns_per_ms;
  return shape;
}

RoundShape late_host() {
  RoundShape shape;
  shape.gap_ns = [](int r, uint64_t) { return (r == 5 ? 50 : 10) * ns_per_ms; };
  shape.host_late = {5};
  return shape;
}

RoundShape slow_wire() {
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{3, 4, 0}, Stage::wire}] = 20 * ns_per_ms;
  return shape;
}

Incident only(const Cluster& c) {
  const auto all = c.incidents();
  INFO(text(all));
  REQUIRE(all.size() == 1);
  return all[0];
}

void named(const Incident& i, std::set<int> ranks, Component component) {
  INFO(text({i}));
  CHECK(ranks_of(i.culprits) == ranks);
  for (const Culprit& c : i.culprits) CHECK(c.component == component);
}

}  // namespace

TEST_CASE("A proxy that does not look is named as long as nobody says that it waited for a processor") {
  Job job;
  SECTION("its kernel does not count") { job.silent = true; }
  SECTION("it hardly waits") {}
  SECTION("it always waits a little") { job.host_waits(0, 0.1, 0.2), job.host_waits(1, 0.1, 0.2); }
  job.rounds(300);
  job.rounds(400, away_proxy());
  named(only(job.cluster), {3}, Component::proxy);
}

TEST_CASE("Where proxies of one host wait for processors, the host is named once, with all its ranks") {
  Job job;
  job.rounds(300);
  job.host_waits(0, 0.5, 0.8);
  job.rounds(400, away_proxy());
  const Incident i = only(job.cluster);
  named(i, {0, 1, 2, 3}, Component::host);
  CHECK(i.title == "host node0 is short of processors");
  CHECK(i.state == VerdictState::confirmed);
  // One cause, whatever the proxy was named by.
  CHECK(i.culprits[0].basis == Basis::processors);
  CHECK(i.confidence == row_of(i.culprits[0]).right);
  CHECK(i.gain.known());
  CHECK(std::any_of(i.evidence.begin(), i.evidence.end(),
                    [](const Evidence& e) { return e.kind == EvidenceKind::host_pressure && e.value > 70; }));
}

TEST_CASE("Where all hosts suffer alike nobody is named, whenever it began") {
  const auto all_wait = [](Job& job) { job.host_waits(0, 0.5, 0.8), job.host_waits(1, 0.4, 0.9); };
  Job job;
  SECTION("with the loss") {
    job.rounds(300);
    all_wait(job);
  }
  SECTION("since the start") {
    all_wait(job);
    job.rounds(300);
  }
  job.rounds(400, away_proxy());
  CHECK(job.cluster.reported().empty());
}

TEST_CASE("Waits that all ranks of one host have in common make none of them late") {
  Job job(8, 8);
  job.rounds(300);
  for (int p = 0; p < 8; ++p) job.waits(p, 0.6, 0.6);
  job.rounds(400, late_host());
  named(only(job.cluster), {5}, Component::process);
}

TEST_CASE(
    "On a host without others to compare with, a rank that waits longer than its neighbours by half is not named") {
  Job job(8, 8);
  job.rounds(300);
  for (int p = 0; p < 8; ++p) job.waits(p, p == 5 ? 0.9 : 0.5, 0.6);
  job.rounds(400, late_host());
  CHECK(job.cluster.reported().empty());
}

TEST_CASE("A process that says that its threads are stopped is named on a busy host as well") {
  Job job;
  job.rounds(300);
  job.host_waits(0, 0.5, 0.8);
  job.host_waits(1, 0.5, 0.8);
  for (int i = 0; i < 40; ++i) {
    Metrics m;
    m.metrics = {{abi::MetricId::process_threads_stopped, "", 1}};
    job.cluster.send(3, {m});
    job.rounds(10, away_proxy());
  }
  named(only(job.cluster), {3}, Component::proxy);
}

TEST_CASE("A process that waits alone is that process: a quota, or threads pinned to one processor") {
  Job job;
  job.rounds(300);
  SECTION("its proxy") {
    job.waits(3, 0.5, 0.8);
    job.rounds(400, away_proxy());
    named(only(job.cluster), {3}, Component::proxy);
  }
  SECTION("its main thread") {
    job.waits(5, 0.8, 0.8);
    job.rounds(400, late_host());
    named(only(job.cluster), {5}, Component::process);
  }
  SECTION("and a quota is its own even where its neighbours wait, too") {
    job.host_waits(1, 0.8, 0.8);
    job.waits(5, 0.8, 0.8, 0.7);
    job.rounds(400, late_host());
    named(only(job.cluster), {5}, Component::process);
  }
}

TEST_CASE("Proxies that sleep do not show that there are processors enough") {
  Job job;
  for (int p = 0; p < 8; ++p) job.proxies_run(p, 0);
  job.proxies_run(3, 0.1);
  job.rounds(300);
  job.waits(3, 0.02, 0.8);
  SECTION("the other proxy that has work waits alike: nobody is named") {
    job.proxies_run(4, 0.1);
    job.waits(4, 0.02, 0.7);
    job.rounds(400, away_proxy());
    CHECK(job.cluster.reported().empty());
  }
  SECTION("that of the other host gets all it wants: it is this host") {
    job.proxies_run(4, 0.9);
    job.rounds(400, away_proxy());
    named(only(job.cluster), {0, 1, 2, 3}, Component::host);
  }
  SECTION("a neighbour that has work gets all it wants: it is this process") {
    job.proxies_run(2, 0.9);
    job.rounds(400, away_proxy());
    named(only(job.cluster), {3}, Component::proxy);
  }
}

TEST_CASE("A host that launches late for want of processors is named with all its ranks") {
  Job job;
  job.rounds(300);
  job.host_waits(1, 0.6, 0.6);
  job.rounds(400, late_host());
  named(only(job.cluster), {4, 5, 6, 7}, Component::host);
}

TEST_CASE("A late process that did not wait is named on a busy host as well") {
  Job job;
  job.host_waits(0, 0.3, 0.9);
  job.host_waits(1, 0.3, 0.9);
  job.rounds(300);
  job.rounds(400, late_host());
  named(only(job.cluster), {5}, Component::process);
}

TEST_CASE("A slow wire is named unless the proxies at its ends began to wait for processors") {
  Job job;
  SECTION("nobody waits") {
    job.rounds(300);
    job.rounds(400, slow_wire());
    named(only(job.cluster), {3}, Component::link);
  }
  SECTION("they always waited: it is the wire that became slower") {
    job.host_waits(0, 0.3, 0.9);
    job.host_waits(1, 0.3, 0.9);
    job.rounds(300);
    job.rounds(400, slow_wire());
    named(only(job.cluster), {3}, Component::link);
  }
  SECTION("all wait since it is slow, and the other wire is slow, too") {
    job.rounds(300);
    job.host_waits(0, 0.3, 0.9);
    job.host_waits(1, 0.3, 0.9);
    RoundShape both = slow_wire();
    both.stage_ns[{Edge{7, 0, 0}, Stage::wire}] = both.stage_ns.at({Edge{3, 4, 0}, Stage::wire});
    job.rounds(400, both);
    CHECK(job.cluster.reported().empty());
  }
  SECTION("all wait for longer since both are slow, but for no larger part of the time for which they poll") {
    for (const double polls : {0.2, 1.0}) {
      for (int p = 0; p < 8; ++p) job.waits(p, 0.3, 0.8 * polls), job.proxies_run(p, 0.2 * polls);
      RoundShape both = slow_wire();
      both.stage_ns[{Edge{7, 0, 0}, Stage::wire}] = both.stage_ns.at({Edge{3, 4, 0}, Stage::wire});
      job.rounds(400, polls < 1 ? RoundShape{} : both);
    }
    const Incident i = only(job.cluster);
    REQUIRE(i.culprits.size() == 2);
    CHECK(i.culprits[0].component == Component::link);
    CHECK(i.culprits[1].component == Component::link);
  }
  SECTION("all wait since it is slow, but the other wire is as ever: ranks that wait for a slow wire spin") {
    job.rounds(300);
    job.host_waits(0, 0.3, 0.9);
    job.host_waits(1, 0.3, 0.9);
    job.rounds(400, slow_wire());
    named(only(job.cluster), {3}, Component::link);
  }
  SECTION("one host does") {
    job.rounds(300);
    job.host_waits(1, 0.3, 0.9);
    job.rounds(400, slow_wire());
    named(only(job.cluster), {4, 5, 6, 7}, Component::host);
  }
}

TEST_CASE("A GPU that takes data slowly is named unless its proxies, which send it on, wait for processors") {
  Job job;
  RoundShape shape;
  shape.comm_ns = 60 * ns_per_ms;
  shape.stage_ns[{Edge{2, 3, 0}, Stage::gpu_to_gpu}] = 20 * ns_per_ms;
  SECTION("nobody waits") {
    job.rounds(300);
    job.rounds(400, shape);
    named(only(job.cluster), {3}, Component::gpu);
  }
  SECTION("all hosts do") {
    job.host_waits(0, 0.3, 0.9);
    job.host_waits(1, 0.3, 0.9);
    job.rounds(300);
    job.rounds(400, shape);
    CHECK(job.cluster.reported().empty());
  }
  SECTION("its host does") {
    job.rounds(300);
    job.host_waits(0, 0.3, 0.9);
    job.rounds(400, shape);
    named(only(job.cluster), {0, 1, 2, 3}, Component::host);
  }
}

TEST_CASE("Beside a rank that is late by itself the proxies of a busy machine are no second cause") {
  Job job;
  job.host_waits(0, 0.1, 0.9);
  job.host_waits(1, 0.1, 0.9);
  job.rounds(300);
  RoundShape shape = away_proxy();
  shape.gap_ns = [](int r, uint64_t) { return (r == 5 ? 50 : 10) * ns_per_ms; };
  shape.host_late = {5};
  job.rounds(400, shape);
  const Incident i = only(job.cluster);
  named(i, {5}, Component::process);
  CHECK(i.fault == FaultClass::s1_computation_slow);
  CHECK(i.confidence == row_of(i.culprits[0]).right);
}

TEST_CASE("Several communicators of a busy host share one incident") {
  Job job;
  // Two groups that cross the hosts: each has other ranks of the busy one.
  Comm& second = job.cluster.add_comm({2, 3, 6, 7});
  const auto steps = [&](int n, const RoundShape& first, const RoundShape& other) {
    for (int i = 0; i < n; ++i) {
      job.rounds(1, first);
      second.rounds(1, other);
    }
  };
  steps(300, {}, {});
  job.host_waits(0, 0.8, 0.8);
  RoundShape other;
  other.comm_ns = 60 * ns_per_ms;
  other.stage_ns[{Edge{1, 2, 0}, Stage::sender_nic}] = 20 * ns_per_ms;
  other.away_ns[{Edge{1, 2, 0}, abi::Direction::send}] = 50 * ns_per_ms;
  steps(400, away_proxy(), other);
  const Incident i = only(job.cluster);
  for (const Culprit& c : i.culprits) CHECK(c.component == Component::host);
}

}  // namespace ccld::decision
