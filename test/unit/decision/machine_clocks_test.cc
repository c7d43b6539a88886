#include "decision/measure/machine_clocks.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace ccld::decision {
namespace {

constexpr double ms = 1e6;
constexpr Nanoseconds half_window = 5 * ns_per_s;

// Steps that cross from one machine to another; the receiver's clock is ahead by so much.
struct Crossing {
  int from, to;
  double wire_ns, ahead_ns;
  bool same_steps = true;
};

EdgeIntervals crossing(const Crossing& c, double sent_realtime_ns) {
  EdgeIntervals i;
  const auto set = [&](Interval which, double ns) {
    i.ns[static_cast<size_t>(which)] = ns;
    i.known[static_cast<size_t>(which)] = which == Interval::handed_to_sent;
  };
  set(Interval::handed_to_sent, 0.01 * ms);
  set(Interval::sent_to_arrived, c.wire_ns + c.ahead_ns);
  set(Interval::awaited_to_handed, 1 * ms - c.ahead_ns);
  set(Interval::awaited_to_sent, 1.01 * ms - c.ahead_ns);
  i.two_clocks = true;
  i.sender_machine = c.from, i.receiver_machine = c.to;
  i.net_device = 0;
  i.steps = 64;
  i.same_steps = c.same_steps;
  i.sent_realtime_ns = sent_realtime_ns;
  return i;
}

// Realtime that passes from window to window.
struct Windows : MachineClocks {
  using MachineClocks::MachineClocks;
  double now_ns = 1.7e18;
};

// The intervals of a window with some equal operations.
std::vector<EdgeIntervals> after(Windows& clocks, const std::vector<Crossing>& crossings) {
  std::vector<Links> operations(5);
  std::vector<Links*> all;
  for (Links& links : operations) {
    for (const Crossing& c : crossings) links.emplace_back(Edge{c.from, c.to, 0}, crossing(c, clocks.now_ns));
    all.push_back(&links);
  }
  clocks.compare(all);
  clocks.now_ns += half_window;
  std::vector<EdgeIntervals> out;
  for (const auto& [edge, i] : operations.back()) out.push_back(i);
  return out;
}

double at_most_ms(const EdgeIntervals& i, Interval which = Interval::sent_to_arrived) {
  return i.known[static_cast<size_t>(which)] ? i.ns[static_cast<size_t>(which)] / ms : INFINITY;
}
double at_least_ms(const EdgeIntervals& i) { return i.wire_at_least_ns / ms; }

constexpr double apart = 3600e9;  // an hour

}  // namespace

TEST_CASE("A machine keeps its number") {
  Windows clocks({100e-6});
  const int first = clocks.number_of("a");
  CHECK(clocks.number_of("b") != first);
  CHECK(clocks.number_of("a") == first);
}

TEST_CASE("From the start on a wire has no more than both directions together") {
  Windows clocks({100e-6});
  for (const EdgeIntervals& i : after(clocks, {{0, 1, 30 * ms, apart}, {1, 0, 0.1 * ms, -apart}})) {
    CHECK(at_most_ms(i) == Approx(30.1).margin(0.02));
    CHECK(at_least_ms(i) == 0);
  }
}

TEST_CASE("What few operations, or scattered ones, say of clocks is no proof") {
  const auto seen = [](Windows& clocks, const std::vector<double>& back_wire_ms) {
    std::vector<Links> operations(10);
    std::vector<Links*> all;
    for (size_t i = 0; i < operations.size(); ++i) {
      operations[i].emplace_back(Edge{0, 1, 0}, crossing({0, 1, 1 * ms, apart}, clocks.now_ns));
      if (i < back_wire_ms.size())
        operations[i].emplace_back(Edge{1, 0, 0}, crossing({1, 0, back_wire_ms[i] * ms, -apart}, clocks.now_ns));
      all.push_back(&operations[i]);
    }
    clocks.compare(all);
    return operations.front().front().second;
  };
  // The way back seems to take less than nothing, because its steps are seldom sampled.
  Windows clocks({100e-6, INFINITY, 3, 3});
  CHECK(at_most_ms(seen(clocks, {-0.9, -0.9})) == INFINITY);
  CHECK(at_most_ms(seen(clocks, {-0.9, 0.1, 0.9})) > 1);
  Windows many({100e-6, INFINITY, 3, 3});
  CHECK(at_most_ms(seen(many, std::vector<double>(10, 0.1))) == Approx(1.12).margin(0.01));
}

TEST_CASE("Batches of telemetry tell which direction of a wire is slow from the start on, within their own doubt") {
  const auto with_batches = [](double says_ahead_ns, const std::vector<Crossing>& crossings) {
    Windows clocks({100e-6, 5 * ms});
    clocks.batches_arrive({{0, 7 * apart}, {1, 7 * apart - says_ahead_ns}});
    return after(clocks, crossings);
  };
  for (const double error_ns : {-4 * ms, 0.0, 4 * ms}) {
    const auto both = with_batches(apart + error_ns, {{0, 1, 30 * ms, apart}, {1, 0, 0.1 * ms, -apart}});
    CHECK(at_least_ms(both[0]) > 20);
    CHECK(at_most_ms(both[1]) < 10);
    const auto one_way = with_batches(apart + error_ns, {{0, 1, 30 * ms, apart}});
    CHECK(at_least_ms(one_way[0]) > 20);
    CHECK(at_most_ms(one_way[0]) < 40);
  }
  // What steps prove counts more.
  for (const EdgeIntervals& i : with_batches(apart + 100 * ms, {{0, 1, 30 * ms, apart}, {1, 0, 0.1 * ms, -apart}}))
    CHECK(at_least_ms(i) == 0);
}

TEST_CASE("Batches that were all slow in one window say nothing in the next") {
  Windows clocks({100e-6, 5 * ms});
  const std::vector<Crossing> healthy{{0, 1, 5 * ms, apart}, {1, 0, 5 * ms, -apart}};
  clocks.batches_arrive({{0, 7 * apart}, {1, 7 * apart - apart + 9 * ms}});
  after(clocks, healthy);
  clocks.batches_arrive({{0, 7 * apart}, {1, 7 * apart - apart}});
  for (const EdgeIntervals& i : after(clocks, healthy)) CHECK(at_least_ms(i) == 0);
}

TEST_CASE("Around a circle of machines clocks cancel, too") {
  Windows clocks({100e-6});
  const auto now = after(clocks, {{0, 1, 30 * ms, apart}, {1, 2, 0.1 * ms, 2 * apart}, {2, 0, 0.1 * ms, -3 * apart}});
  for (const EdgeIntervals& i : now) CHECK(at_most_ms(i) == Approx(30.2).margin(0.05));
}

TEST_CASE("Healthy steps tell clocks, and so which direction of a wire has become slow") {
  Windows clocks({100e-6});
  after(clocks, {{0, 1, 0.1 * ms, apart}, {1, 0, 0.1 * ms, -apart}});
  const bool there = GENERATE(true, false);
  const auto now = after(clocks, {{0, 1, (there ? 30 : 0.1) * ms, apart}, {1, 0, (there ? 0.1 : 30) * ms, -apart}});
  const EdgeIntervals &slow = now[there ? 0 : 1], &other = now[there ? 1 : 0];
  CHECK(at_least_ms(slow) > 28);
  CHECK(at_most_ms(slow) < 32);
  CHECK(at_least_ms(other) == 0);
  CHECK(at_most_ms(other) < 2);
  CHECK(at_most_ms(slow, Interval::awaited_to_handed) == Approx(1).margin(1.2));  // the drift of a window, twice
}

TEST_CASE("What clocks may have drifted since is doubt: minutes later both directions count together again") {
  Windows clocks({100e-6});
  after(clocks, {{0, 1, 0.1 * ms, apart}, {1, 0, 0.1 * ms, -apart}});
  clocks.now_ns += 6 * 60e9;
  for (const EdgeIntervals& i : after(clocks, {{0, 1, 30 * ms, apart}, {1, 0, 0.1 * ms, -apart}}))
    CHECK(at_least_ms(i) == 0);
}

TEST_CASE("A window may be long: its operations are compared with earlier ones by when they were") {
  Windows clocks({100e-6});
  constexpr double drift_part = 60e-6;
  const auto window = [&](double at_ns) {
    clocks.now_ns = 1.7e18 + at_ns;
    const double ahead_ns = apart + drift_part * at_ns;
    for (const EdgeIntervals& i : after(clocks, {{0, 1, 0.1 * ms, ahead_ns}, {1, 0, 0.1 * ms, -ahead_ns}})) {
      CHECK(at_most_ms(i) < 1);
      CHECK(at_least_ms(i) == 0);
    }
  };
  for (const double at_s : {0, 5, 30, 35, 40, 100, 105}) window(at_s * 1e9);
}

TEST_CASE("A clock that was set is known anew, not taken for a slow wire") {
  Windows clocks({100e-6});
  after(clocks, {{0, 1, 0.1 * ms, apart}, {1, 0, 0.1 * ms, -apart}});
  const double by = GENERATE(2e9, -2e9);
  for (int window = 0; window < 2; ++window)
    for (const EdgeIntervals& i : after(clocks, {{0, 1, 0.1 * ms, apart + by}, {1, 0, 0.1 * ms, -apart - by}})) {
      CHECK(at_most_ms(i) < 2);
      CHECK(at_least_ms(i) == 0);
    }
}

TEST_CASE("Means over different steps say nothing of clocks") {
  Windows clocks({100e-6});
  after(clocks, {{0, 1, 0.1 * ms, apart}, {1, 0, 0.1 * ms, -apart}});
  // The receiver's probe saw the first steps only, long before the sender's means.
  after(clocks, {{0, 1, -60 * ms, apart, false}, {1, 0, 0.1 * ms, -apart}});
  for (const EdgeIntervals& i : after(clocks, {{0, 1, 0.1 * ms, apart}, {1, 0, 0.1 * ms, -apart}})) {
    CHECK(at_most_ms(i) < 2);
    CHECK(at_least_ms(i) == 0);
  }
}

TEST_CASE("Of two machines that steps cross in one direction only, what has become slow is known, not what it is") {
  Windows clocks({100e-6});
  const auto first = after(clocks, {{0, 1, 1 * ms, apart}});
  CHECK(std::isinf(at_most_ms(first[0])));
  CHECK(at_least_ms(first[0]) == 0);
  CHECK(at_least_ms(after(clocks, {{0, 1, 30 * ms, apart}})[0]) > 27);
}

}  // namespace ccld::decision
