#include "probe/agent/pace.h"

#include <catch2/catch.hpp>

#include "probe/agent/clock.h"
#include "probe/control/control.h"

namespace ccld::probe {
namespace {

PaceOptions options() { return {1 * ns_per_ms, 20 * ns_per_ms, 1000 * ns_per_ms, 3000}; }

// A thread whose passes cost something, under a simulated clock.
struct Scene {
  explicit Scene(const PaceOptions& o = options()) : pace(o) {}

  void run_ms(uint64_t ms, const Activity& activity, uint64_t events_per_s = 100) {
    const uint64_t end = now + ms * ns_per_ms;
    begin = now;
    cpu_begin = cpu;
    passes = 0;
    while (now < end) {
      cpu += pass_ns;
      Activity a = activity;
      a.events = events = now / 1000 * events_per_s / 1000000;
      step = pace.next(now, pace.wants_cpu(now) ? cpu : 0, a);
      longest_ns = std::max(longest_ns, step.wait_ns);
      now += step.wait_ns;
      ++passes;
    }
  }
  double share() const { return static_cast<double>(cpu - cpu_begin) / static_cast<double>(now - begin); }

  Pace pace;
  Pace::Step step{};
  uint64_t pass_ns = 1000;
  uint64_t now = ns_per_s, cpu = 0, begin = 0, cpu_begin = 0, events = 0, longest_ns = 0;
  int passes = 0;
};

Activity in_flight() {
  Activity a;
  a.in_flight = true;
  return a;
}

TEST_CASE("a cheap thread samples as often as was asked for") {
  Scene s;
  s.run_ms(5000, in_flight());
  CHECK(s.pace.period_ns() == 1 * ns_per_ms);
  CHECK(s.pace.slowdowns() == 0);
  CHECK(s.passes == 5000);
}

TEST_CASE("an expensive thread slows down to its budget, and speeds up when it is cheap again") {
  Scene s;
  s.pass_ns = 20000;  // 2 % of a core at 1 ms
  s.run_ms(5000, in_flight());
  s.run_ms(10000, in_flight());
  CHECK(s.share() <= 0.003);
  CHECK(s.share() >= 0.002);
  CHECK(s.pace.slowdowns() >= 3);
  const uint64_t slowdowns = s.pace.slowdowns();
  s.run_ms(10000, in_flight());
  CHECK(s.pace.slowdowns() <= slowdowns + 1);  // it does not swing
  s.pass_ns = 1000;
  s.run_ms(5000, in_flight());
  CHECK(s.pace.period_ns() == 1 * ns_per_ms);
}

TEST_CASE("a process with more GPUs may cost more") {
  Scene s;
  s.pass_ns = 160000;  // 16 % of a core at 1 ms
  Activity eight = in_flight();
  eight.gpus = 8;
  s.run_ms(5000, eight);
  s.run_ms(10000, eight);
  CHECK(s.share() <= 8 * 0.003);
  CHECK(s.share() >= 8 * 0.002);
}

TEST_CASE("no budget, no slowdown") {
  PaceOptions o = options();
  o.budget_ppm = 0;
  Scene s(o);
  s.pass_ns = 500000;
  s.run_ms(5000, in_flight());
  CHECK(s.pace.period_ns() == 1 * ns_per_ms);
}

TEST_CASE("the budget never lets rows be overwritten") {
  Scene s;
  s.pass_ns = 2000000;  // hopeless
  s.run_ms(5000, in_flight());
  CHECK(s.longest_ns <= 40 * ns_per_ms);
  s.longest_ns = 0;
  s.run_ms(3000, in_flight(), 10000);
  s.longest_ns = 0;
  s.run_ms(3000, in_flight(), 10000);
  CHECK(s.longest_ns <= 7 * ns_per_ms);  // 128 kernels take 12.8 ms
}

TEST_CASE("kernels that overwrite rows within the wanted period do not cost more than the budget") {
  Scene s;
  s.pass_ns = 60000;  // 6 % of a core at 1 ms
  s.run_ms(5000, in_flight(), 200000);
  s.run_ms(10000, in_flight(), 200000);
  CHECK(s.share() <= 0.003);
  CHECK(s.longest_ns <= 40 * ns_per_ms);
  // Cheap passes stay as close together as was asked for.
  s.pass_ns = 1000;
  s.run_ms(10000, in_flight(), 200000);
  CHECK(s.pace.period_ns() == 1 * ns_per_ms);
}

TEST_CASE("what does not move is looked at less often") {
  Scene s;
  Activity stuck = in_flight();
  stuck.stuck = true;
  s.run_ms(1000, stuck);
  CHECK(s.step.wait_ns == 10 * ns_per_ms);
}

TEST_CASE("an idle thread backs off and then rests") {
  Scene s;
  s.run_ms(100, in_flight());
  s.run_ms(2000, Activity{});
  CHECK(s.step.wait_ns == 20 * ns_per_ms);
  CHECK_FALSE(s.step.rest);
  s.run_ms(3000, Activity{});
  CHECK(s.step.rest);
  CHECK(s.step.wait_ns == 1000 * ns_per_ms);
  Activity graphs;
  graphs.replays = true;
  s.run_ms(1000, graphs);
  CHECK(s.step.rest);
  CHECK(s.step.wait_ns == 50 * ns_per_ms);
  s.run_ms(10, in_flight());
  CHECK_FALSE(s.step.rest);
  CHECK(s.step.wait_ns == 1 * ns_per_ms);
}

TEST_CASE("rest does not count as a cheap time in flight") {
  Scene s;
  s.pass_ns = 20000;
  s.run_ms(10000, in_flight());
  const uint64_t period = s.pace.period_ns();
  s.run_ms(60000, Activity{});
  CHECK(s.pace.period_ns() >= period / 2);  // a window that was half in flight may count
}

// ---- wishes of an operator (probe/control)
// ---------------------------------------------------------------------------

TEST_CASE("a wish is applied field by field, and only the fields that are meant") {
  ControlInForce now;
  now.sample_us = 1000;
  now.endpoint = "tcp://a:1";
  ControlWish wish;
  wish.sequence = 8;
  wish.fields = abi::control_running | abi::control_budget_ppm;
  wish.running = false;
  wish.sample_us = 5000;  // not meant
  wish.budget_ppm = 0;
  const ControlInForce next = judge_wish(now, wish);
  CHECK(next.applied_sequence == 8);
  CHECK(next.refused_fields == 0);
  CHECK_FALSE(next.running);
  CHECK(next.sample_us == 1000);
  CHECK(next.budget_ppm == 0);
  CHECK(next.endpoint == "tcp://a:1");
}

TEST_CASE("a wish may name several endpoints, which take the place of what was there") {
  ControlInForce now;
  now.endpoint = "tcp://a:1";
  ControlWish wish;
  wish.fields = abi::control_endpoint;
  wish.endpoint = "tcp://b:1,tcp://c:1";
  now = judge_wish(now, wish);
  CHECK(now.refused_fields == 0);
  CHECK(now.endpoint == "tcp://b:1,tcp://c:1");
  wish.endpoint = "tcp://d:1";
  CHECK(judge_wish(now, wish).endpoint == "tcp://d:1");
}

TEST_CASE("fields out of range are refused by name, the others are applied") {
  ControlInForce now;
  now.sample_us = 1000;
  now.log = 1;
  now.budget_ppm = 3000;
  now.endpoint = "tcp://a:1";
  ControlWish wish;
  wish.fields = ~0u;
  wish.running = false;
  wish.sample_us = GENERATE(0u, 99u, 1000001u);
  wish.log = 3;
  wish.budget_ppm = 1000001;
  wish.endpoint = GENERATE(as<std::string>{}, "nonsense", "tcp://", "://x", "tcp://a b", std::string(200, 'x') + "://y",
                           "tcp://b:1,", "tcp://b:1,c:1", "tcp://b:1,tcp://" + std::string(80, 'c') + ":1");
  const ControlInForce next = judge_wish(now, wish);
  CHECK_FALSE(next.running);
  CHECK(next.sample_us == 1000);
  CHECK(next.log == 1);
  CHECK(next.budget_ppm == 3000);
  CHECK(next.endpoint == "tcp://a:1");
  CHECK(next.refused_fields == (~0u & ~abi::control_running));
}

}  // namespace
}  // namespace ccld::probe
