#include "test/sim/telemetry/agent.h"

#include <catch2/catch.hpp>

#include "test/sim/scenario.h"

namespace ccld::sim {
namespace {

using namespace decision;

struct Cluster {
  Cluster(FaultKind kind, uint64_t seed) : scenario(drawn(kind, seed)), layout(scenario.sizes),
      job(layout, scenario.traffic, scenario.conditions, seed, scenario.start) {
    for (int p = 0; p < layout.processes(); ++p) {
      AgentPlace place;
      place.process = p;
      place.phase_ns = 1 + p * 7 * ns_per_ms;
      agents.emplace_back(job, place);
    }
  }
  static Scenario drawn(FaultKind kind, uint64_t seed) {
    Wishes wishes;
    wishes.fault = kind;
    for (;; ++seed) {
      Scenario sc = draw(seed, wishes);
      if (sc.sizes.tensor == 1 && sc.sizes.pipeline == 1 && sc.sizes.data > 3 && sc.earlier_start < 0) return sc;
    }
  }
  template <class T>
  std::vector<T> collect(int process, Instant from, Instant to) {
    std::vector<T> found;
    for (Instant t = from; t < to; t += 100 * ns_per_ms) {
      job.run_until(t + 100 * ns_per_ms);
      for (Payload& p : agents[process].collect(t + agents[process].place().phase_ns % (100 * ns_per_ms), {}))
        if (T* m = std::get_if<T>(&p)) found.push_back(std::move(*m));
    }
    return found;
  }
  Scenario scenario;
  Layout layout;
  Job job;
  std::vector<Agent> agents;
};

TEST_CASE("a moving rank sends a snapshot a second, one that waits ten") {
  Cluster c(FaultKind::never_calls, 100);
  const int culprit = c.scenario.planted.processes[0], other = culprit == 0 ? 1 : 0;
  const size_t comms = c.layout.comm_of(other, CommKind::expert) >= 0 ? 3 : 2;
  const Instant standstill = c.scenario.planted.at + 3 * ns_per_s;
  const size_t before = c.collect<InFlight>(other, c.scenario.start, c.scenario.start + 2 * ns_per_s).size();
  CHECK(before <= 4 * comms);
  c.collect<InFlight>(other, c.scenario.start + 2 * ns_per_s, standstill);
  CHECK(c.collect<InFlight>(other, standstill, standstill + 2 * ns_per_s).size() >= 19);
}

TEST_CASE("every finished round is told once and in order") {
  Cluster c(FaultKind::none, 200);
  uint64_t expected = 0;
  for (const Rounds& m : c.collect<Rounds>(0, c.scenario.start, c.scenario.start + 5 * ns_per_s)) {
    if (m.comm.value != c.layout.comms()[c.layout.comm_of(0, CommKind::data)].uid) continue;
    for (const decision::Round& r : m.rounds) {
      CHECK(r.op.value == ++expected);
      CHECK(r.end_device_ns > r.begin_device_ns);
    }
  }
  CHECK(expected > 3);
}

TEST_CASE("ranks that are inside show what they wait for, and the absent one has not entered") {
  Cluster c(FaultKind::never_calls, 300);
  const int culprit = c.scenario.planted.processes[0];
  const Instant standstill = c.scenario.planted.at + 4 * ns_per_s;
  size_t waits = 0;
  OpSeq most;
  for (int p = 0; p < c.layout.processes(); ++p) {
    if (p == culprit) continue;
    const auto snapshots = c.collect<InFlight>(p, standstill, standstill + ns_per_s);
    for (const InFlight& s : snapshots)
      for (const LaneState& l : s.lanes) {
        waits += l.wait != abi::WaitKind::none;
        if (l.wait != abi::WaitKind::none) CHECK(l.poll_age_ms < 100);
        most = std::max(most, s.entered);
      }
  }
  CHECK(waits > 0);
}

}  // namespace
}  // namespace ccld::sim
