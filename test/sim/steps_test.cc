#include "test/sim/cluster/steps.h"

#include <catch2/catch.hpp>

namespace ccld::sim {
namespace {

using At = StepRun::At;

struct Ring {
  explicit Ring(int ranks, int per_host, bool tree = false)
      : Ring(ranks, per_host, tree ? tree_plan : ring_plan) {}
  Ring(int ranks, int per_host, StepPlan (*made)(const Topology&, int, int)) : layout(sizes(ranks, per_host)) {
    const Topology topology(layout, layout.comms()[0], 1);
    plan = std::make_shared<const StepPlan>(made(topology, ranks, 24));
    conditions.processes.resize(ranks);
    starts.assign(ranks, RankStart{0, 0, -1});
  }
  static LayoutSizes sizes(int ranks, int per_host) {
    LayoutSizes s;
    s.data = ranks;
    s.gpus_per_host = per_host;
    s.world = false;
    return s;
  }
  StepRun run(const StepTimes& times = {}) const {
    return StepRun(plan, times, conditions, 0, layout.comms()[0].members, starts);
  }
  int connection(int sender, int receiver) const {
    for (size_t c = 0; c < plan->connections.size(); ++c)
      if (plan->connections[c].sender == sender && plan->connections[c].receiver == receiver) return static_cast<int>(c);
    return -1;
  }
  Layout layout;
  std::shared_ptr<const StepPlan> plan;
  Conditions conditions;
  std::vector<RankStart> starts;
};

constexpr Instant late = 3600 * ns_per_s;

TEST_CASE("a healthy ring and a healthy tree end on all ranks") {
  for (bool tree : {false, true}) {
    const Ring ring(8, 4, tree);
    const StepRun run = ring.run();
    for (int r = 0; r < 8; ++r) CHECK(run.end(r) < ns_per_s);
  }
}

TEST_CASE("nobody ends an AllReduce while a rank is missing") {
  for (bool tree : {false, true}) {
    Ring ring(8, 4, tree);
    ring.starts[3] = RankStart{};
    const StepRun run = ring.run();
    for (int r = 0; r < 8; ++r) CHECK(run.end(r) == never);
  }
}

TEST_CASE("through a switch all end together, or nobody while a rank is missing") {
  Ring node(8, 8, nvls_plan);
  const StepRun whole = node.run();
  for (int r = 0; r < 8; ++r) CHECK(whole.end(r) < ns_per_s);
  node.starts[3] = RankStart{};
  const StepRun without = node.run();
  for (int r = 0; r < 8; ++r) CHECK(without.end(r) == never);
}

TEST_CASE("a head has one endpoint for all ranks of the switch, and every rank one for each head") {
  const Ring node(8, 8, nvls_plan);
  for (const Group& g : node.plan->groups) {
    const bool head = !g.receives.empty() && !g.sends.empty();
    if (!g.receives.empty()) CHECK(node.plan->endpoints(g.receives, false) == (head ? 1 : 8));
    if (!g.sends.empty()) CHECK(node.plan->endpoints(g.sends, true) == (head ? 1 : 8));
  }
}

TEST_CASE("a sender is never more than its slots ahead of a receiver within a node") {
  Ring ring(4, 4);
  ring.starts[2].begin = 5 * ns_per_ms;
  const StepRun run = ring.run();
  const int c = ring.connection(1, 2);
  for (Instant t = 0; t < 10 * ns_per_ms; t += 50'000)
    CHECK(run.count(c, At::posted, t) <= run.count(c, At::consumed, t) + slots_in_steps);
}

TEST_CASE("the stages of a connection come one after the other") {
  const Ring ring(4, 1);
  const StepRun run = ring.run();
  for (int k = 0; k < ring.plan->steps; ++k)
    for (auto [a, b] : {std::pair{At::posted, At::handed}, {At::handed, At::arrived}, {At::arrived, At::given},
                        {At::given, At::consumed}})
      CHECK(run.at(0, a, k) <= run.at(0, b, k));
}

TEST_CASE("a proxy that seldom runs does what it does while it runs, at both its connections, and is away otherwise") {
  Ring ring(4, 2);
  constexpr Nanoseconds period_ns = 10 * ns_per_ms, running_ns = 2 * ns_per_ms;
  ring.conditions.slow_proxies.push_back({1, 0, 0, period_ns, running_ns});
  ring.conditions.slow_proxies.push_back({2, 0, 0, period_ns, running_ns});
  ring.starts.assign(4, RankStart{3 * ns_per_ms, 3 * ns_per_ms, -1});
  const StepRun run = ring.run();
  const int c = ring.connection(1, 2);
  for (int k = 0; k < ring.plan->steps; ++k)
    for (At stage : {At::receive_posted, At::handed, At::sent, At::arrived, At::given})
      CHECK(run.at(c, stage, k) % period_ns < running_ns);
  CHECK(run.end(0) > period_ns);
  for (bool sender : {true, false}) {
    CHECK(run.away_ns(c, sender, 0, 30 * ns_per_ms, 0) == 24 * ns_per_ms);
    CHECK(run.away_ns(c, sender, 5 * ns_per_ms, 15 * ns_per_ms, ns_per_ms) == 4 * ns_per_ms + 2 * ns_per_ms);
    CHECK(run.away_ns(ring.connection(3, 0), sender, 0, 30 * ns_per_ms, 0) == 0);
  }
}

TEST_CASE("behind a cut link steps were sent and did not arrive, and everything stands still") {
  for (bool buffered : {false, true}) {
    Ring ring(4, 2);
    BadLink cut{1, 2};
    cut.cut_at = ns_per_ms / 4;
    ring.conditions.links.push_back(cut);
    StepTimes times;
    times.buffered = buffered;
    const StepRun run = ring.run(times);
    const int c = ring.connection(1, 2);
    const int arrived = run.count(c, At::arrived, late);
    CHECK(arrived < ring.plan->steps);
    CHECK(run.count(c, At::handed, late) > arrived);
    if (buffered) CHECK(run.count(c, At::sent, late) > arrived);  // "sent" is not delivery
    for (int r = 0; r < 4; ++r) CHECK(run.end(r) == never);
  }
}

TEST_CASE("a stuck proxy passes nothing on in either direction, and nobody ends") {
  Ring ring(4, 1);
  const Instant stop = ns_per_ms / 4;
  ring.conditions.processes[1].proxy_stops = stop;
  const StepRun run = ring.run();
  CHECK(run.last(ring.connection(1, 2), At::handed, late) <= stop);
  CHECK(run.last(ring.connection(0, 1), At::given, late) <= stop);
  for (int r = 0; r < 4; ++r) CHECK(run.end(r) == never);
}

TEST_CASE("a frozen group has what it needs and does not move") {
  Ring ring(8, 4);
  ring.conditions.frozen.push_back({5, 0, 0, -1, ns_per_ms / 4});
  const StepRun run = ring.run();
  const int in = ring.connection(4, 5), out = ring.connection(5, 6);
  const int done = run.count(out, At::posted, late);
  CHECK(run.count(in, At::given, late) >= done);
  CHECK(run.freed(out, done) < late);
  CHECK(run.end(5) == never);
}

TEST_CASE("a throttled link makes the operation slow, and its steps wait in front of it") {
  Ring ring(4, 1);
  const Instant usual = ring.run().end(0);
  BadLink slow{1, 2};
  slow.slow_at = 0;
  slow.slow_factor = 60;
  ring.conditions.links.push_back(slow);
  const StepRun run = ring.run();
  CHECK(run.end(0) > 4 * usual);
  const int throttled = ring.connection(1, 2), other = ring.connection(2, 3), last = ring.plan->steps - 1;
  CHECK(run.at(throttled, At::arrived, last) - run.at(throttled, At::handed, last) >
        5 * (run.at(other, At::arrived, last) - run.at(other, At::handed, last)));
}

TEST_CASE("a rank with fewer steps of its own leaves the others waiting") {
  Ring ring(4, 4);
  ring.starts[2].steps = 12;
  const StepRun run = ring.run();
  CHECK(run.end(2) < never);
  CHECK(run.end(3) == never);
}

TEST_CASE("of steps that only one rank has, nothing happens on the others' connections") {
  Ring ring(4, 2);
  ring.starts[2].steps = ring.plan->steps + 16;
  const StepRun run = ring.run();
  CHECK(run.end(2) == never);
  for (int c = 0; c < static_cast<int>(ring.plan->connections.size()); ++c) {
    if (ring.plan->connections[c].sender == 2 || ring.plan->connections[c].receiver == 2) continue;
    for (At stage : {At::posted, At::receive_posted, At::handed, At::sent, At::arrived, At::given, At::consumed})
      CHECK(run.count(c, stage, late) <= ring.plan->steps);
  }
}

}  // namespace
}  // namespace ccld::sim
