#include "test/sim/faults/plan.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/sim/cluster/job.h"

namespace ccld::sim {
namespace {

Scenario drawn(uint64_t seed, FaultKind kind, double from_start, double pipeline_links) {
  Wishes w;
  w.fault = kind;
  w.from_start = from_start;
  w.pipeline_links = pipeline_links;
  return draw(seed, w);
}

// Seconds until the first process begins this iteration.
double until_iteration_s(const Scenario& sc, const Conditions& conditions, uint64_t iteration) {
  const Layout layout(sc.sizes);
  Job job(layout, sc.traffic, conditions, sc.seed, sc.start);
  Instant t = sc.start;
  while (job.iteration_of_process(0) < iteration) job.run_until(t += 5 * ns_per_ms);
  return static_cast<double>(t - sc.start) / 1e9;
}

Conditions healthy(const Scenario& sc) {
  Conditions c;
  c.processes.resize(sc.sizes.processes());
  return c;
}

constexpr FaultKind slow_kinds[] = {FaultKind::late_host,
                                    FaultKind::slow_clock,
                                    FaultKind::pauses,
                                    FaultKind::throttled_link,
                                    FaultKind::delaying_proxy,
                                    FaultKind::seldom_proxy,
                                    FaultKind::late_and_throttled,
                                    FaultKind::slow_clock_and_delaying};

TEST_CASE("what is slow from the start is planted before the first iteration and costs time from then on") {
  for (FaultKind kind : slow_kinds) {
    const Scenario sc = drawn(5, kind, 1, 0);
    INFO(name(kind) << ": " << sc.planted.text);
    REQUIRE(sc.planted.kind == kind);
    CHECK(sc.planted.from_start);
    CHECK(sc.planted.at == sc.start);
    const auto iteration = static_cast<uint64_t>(sc.traffic.slow_iterations) + 4;
    CHECK(until_iteration_s(sc, sc.conditions, iteration) > 1.02 * until_iteration_s(sc, healthy(sc), iteration));
  }
}

TEST_CASE("without either of two faults iterations are shorter: neither is hidden behind the other") {
  for (FaultKind kind : {FaultKind::late_and_throttled, FaultKind::slow_clock_and_delaying})
    for (uint64_t seed : {3, 4}) {
      const Scenario sc = drawn(seed, kind, 1, 0);
      INFO(name(kind) << ", seed " << seed << ": " << sc.planted.text);
      REQUIRE(sc.planted.kind == kind);
      Conditions computation = sc.conditions, communication = sc.conditions;
      computation.links.clear();
      computation.slow_proxies.clear();
      for (ProcessConditions& p : communication.processes) p.slow_clock_at = p.late_at = never;
      const auto iteration = static_cast<uint64_t>(sc.traffic.slow_iterations) + 7;
      const double both_s = until_iteration_s(sc, sc.conditions, iteration);
      CHECK(both_s > 1.05 * until_iteration_s(sc, computation, iteration));
      CHECK(both_s > 1.05 * until_iteration_s(sc, communication, iteration));
    }
}

TEST_CASE("slow links and proxies of a pipeline make iterations at least a quarter longer, from the start or later") {
  for (FaultKind kind : {FaultKind::throttled_link, FaultKind::delaying_proxy, FaultKind::seldom_proxy})
    for (uint64_t seed : {2, 5, 7}) {
      const Scenario sc = drawn(seed, kind, 1, 1);
      INFO(name(kind) << ", seed " << seed << ": " << sc.planted.text);
      REQUIRE(sc.planted.kind == kind);
      CHECK(sc.planted.in_pipeline);
      const auto iteration = static_cast<uint64_t>(sc.traffic.slow_iterations) + 10;
      CHECK(until_iteration_s(sc, sc.conditions, iteration) > 1.1 * until_iteration_s(sc, healthy(sc), iteration));
      const Scenario later = drawn(seed, kind, 0, 1);
      CHECK(later.planted.in_pipeline);
      CHECK(later.planted.at > later.start);
    }
}

TEST_CASE("every slow link of a pipeline is written down with its direction") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Scenario sc = drawn(seed, FaultKind::throttled_link, 0, 1);
    REQUIRE(sc.planted.links.size() == sc.conditions.links.size());
    for (const BadLink& l : sc.conditions.links)
      CHECK(std::count(sc.planted.links.begin(), sc.planted.links.end(), std::pair(l.sender, l.receiver)) == 1);
    CHECK(std::count(sc.planted.links.begin(), sc.planted.links.end(),
                     std::pair(sc.planted.sender, sc.planted.receiver)) == 1);
  }
}

TEST_CASE("seeds that draw no such fault stay as they are") {
  Wishes wishes;
  wishes.from_start = 0.25;
  wishes.pipeline_links = 0.33;
  int others = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Scenario plain = draw(seed, {}), drawn_too = draw(seed, wishes);
    if (drawn_too.planted.from_start || drawn_too.planted.in_pipeline) {
      ++others;
      continue;
    }
    CHECK(plain.planted.text == drawn_too.planted.text);
    CHECK(plain.planted.at == drawn_too.planted.at);
    CHECK(plain.summary() == drawn_too.summary());
  }
  CHECK(others > 0);
}

}  // namespace
}  // namespace ccld::sim
