#include "probe/agent/link_stages.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

namespace ccld::probe {
namespace {

TEST_CASE("the mean is weighted by the steps that reached the stage at each time") {
  Stage stage;
  stage.reached(100, 100, steps_unlimited, 5);
  CHECK(stage.steps() == 0);
  CHECK(stage.mean_ns(0) == 0);
  stage.reached(100, 101, steps_unlimited, 1000);  // one step at 1000
  stage.reached(100, 101, steps_unlimited, 1500);
  stage.reached(100, 104, steps_unlimited, 2000);  // three at 2000
  CHECK(stage.steps() == 4);
  CHECK(stage.mean_ns(0) == 1750);
}

TEST_CASE("steps before the kernel's first and after its last do not count") {
  Stage stage;
  stage.reached(100, 90, steps_unlimited, 1000);
  CHECK(stage.steps() == 0);
  stage.reached(100, 200, 8, 2000);
  CHECK(stage.steps() == 8);
  stage.reached(100, 300, 8, 9000);
  CHECK(stage.mean_ns(0) == 2000);
}

TEST_CASE("steps wrap") {
  Stage stage;
  stage.reached(0xfffffffeu, 0xffffffffu, steps_unlimited, 10);
  stage.reached(0xfffffffeu, 2, steps_unlimited, 50);
  CHECK(stage.steps() == 4);
  CHECK(stage.mean_ns(0) == 40);
}

TEST_CASE("realtime in nanoseconds keeps its precision") {
  Stage stage;
  const int64_t t0 = 1700000000123456789;
  for (uint32_t i = 1; i <= 1000; ++i) stage.reached(0, i, steps_unlimited, t0 + i * 1000);
  CHECK(stage.mean_ns(0) == t0 + 500500);
}

TEST_CASE("a mean leaves out the steps before a mark") {
  // Step i (from 1) at i * i; all at once what a sample sees later.
  const uint32_t steps = GENERATE(12u, 13u, 16u, 32u, 33u, 40u, 100u, 1000u, 65537u);
  const uint32_t at_once = GENERATE(1u, 3u, 64u);
  Stage stage;
  std::vector<double> times_ns;
  for (uint32_t i = 0; i < steps; i += at_once) {
    const uint32_t seen = std::min(steps, i + at_once);
    const int64_t time_ns = 1000 + int64_t{i} * i;
    stage.reached(0xfffffff0u, 0xfffffff0u + seen, steps_unlimited, time_ns);
    times_ns.resize(seen, static_cast<double>(time_ns));
  }
  const uint32_t first = wire::first_counted_step(steps);
  REQUIRE(first < steps);
  CHECK(first >= std::max(steps / 2, wire::slots));
  CHECK(first <= std::max(steps / 2 + steps / 8 + 1, wire::slots));
  const double mean_ns = std::accumulate(times_ns.begin() + first, times_ns.end(), 0.0) / (steps - first);
  CHECK(static_cast<double>(stage.mean_ns(first)) == Approx(mean_ns).margin(1));
}

TEST_CASE("of a few steps all count") {
  const uint32_t steps = GENERATE(0u, 1u, 8u, 11u);
  CHECK(wire::first_counted_step(steps) == 0);
}

TEST_CASE("a mean that starts at a step no longer remembered is not known") {
  Stage stage;
  stage.reached(0, 17, steps_unlimited, 1000);  // marks every second step
  CHECK(stage.mean_ns(16) == 1000);
  CHECK(stage.mean_ns(15) == 0);
  CHECK(stage.mean_ns(17) == 0);
}

TEST_CASE("a link is settled when its proxy has handled every step of the kernel") {
  LinkTrack link;
  link.direction = abi::Direction::send;
  link.base_step = 16;
  link.gpu.reached(16, 24, steps_unlimited, 100);
  CHECK(link.settled());  // nobody else works for it
  abi::ProxyRecord proxy{};
  proxy.base = 16;
  proxy.transmitted = 24;
  proxy.done = 20;
  link.proxy_reached(proxy, {200, 200});
  CHECK_FALSE(link.settled());
  proxy.done = 24;
  link.proxy_reached(proxy, {300, 300});
  CHECK(link.settled());
  CHECK(link.wire.mean_ns(0) == 200);
  CHECK(link.done.mean_ns(0) == 250);
}

TEST_CASE("steps that are stuck when nobody waits any longer count as late, not as absent") {
  LinkTrack link;
  link.direction = abi::Direction::send;
  link.base_step = 16;
  link.gpu.reached(16, 24, steps_unlimited, 100);
  abi::ProxyRecord proxy{};
  proxy.base = 16;
  proxy.transmitted = 20;
  proxy.done = 16;
  link.proxy_reached(proxy, {200, 200});
  link.close(1000);
  CHECK(link.wire.mean_ns(0) == 600);
  CHECK(link.done.mean_ns(0) == 1000);
}

TEST_CASE("a proxy that never worked for the kernel tells nothing about it") {
  LinkTrack link;
  link.direction = abi::Direction::send;
  link.base_step = 16;
  link.gpu.reached(16, 24, steps_unlimited, 100);
  abi::ProxyRecord proxy{};
  proxy.base = proxy.transmitted = proxy.done = 8;
  link.proxy_reached(proxy, {200, 200});
  link.close(1000);
  CHECK_FALSE(link.has_proxy);
  CHECK(link.done.mean_ns(0) == 0);
}

constexpr uint64_t ms = 1000000;

// A connection end of 8 steps, looked at every millisecond.
struct Watched {
  explicit Watched(abi::Direction direction) {
    link.direction = direction;
    link.base_step = 16;
    record.direction = static_cast<uint8_t>(direction);
    record.base = record.posted = record.received = record.transmitted = record.done = 16;
    record.step_count = 8;
    record.net_device = 0;
    record.began_ns = record.visited_ns = now_ms * ms;
    sample(0);
  }
  void sample(int times, bool visited = false) {
    for (int i = 0; i < times || i == 0; ++i) {
      if (times > 0) ++now_ms;
      if (visited) visit();
      link.proxy_reached(record, {now_ms * ms, static_cast<int64_t>(now_ms * ms)});
    }
  }
  // As the progress thread counts it.
  void visit() {
    const uint64_t gap_ns = now_ms * ms - record.visited_ns;
    if (gap_ns >= abi::proxy_away_min_ns) record.away_ns += gap_ns;
    record.visited_ns = now_ms * ms;
  }
  uint64_t away_ms() const { return link.proxy_away_us() / 1000; }
  uint64_t now_ms = 1000;
  abi::ProxyRecord record{};
  LinkTrack link;
};

TEST_CASE("a proxy is away while it has work for a connection and does not look") {
  SECTION("that of a sender: what its GPU has posted") {
    Watched w(abi::Direction::send);
    w.sample(20);
    CHECK(w.away_ms() == 0);  // nothing to send yet
    w.sample(1, true);
    w.link.gpu.reached(16, 20, steps_unlimited, 1);
    const uint64_t before_ms = w.away_ms();
    w.sample(30);
    CHECK(w.away_ms() == before_ms + 30);
    w.sample(10, true);
    CHECK(w.away_ms() == before_ms + 31);
    w.record.transmitted = w.record.done = 20;
    w.sample(1, true);
    w.sample(30);
    CHECK(w.away_ms() == before_ms + 31);  // all is sent
  }
  SECTION("that of a receiver: until all has arrived") {
    Watched w(abi::Direction::recv);
    w.sample(30);
    CHECK(w.away_ms() == 30);
    w.record.posted = w.record.received = w.record.transmitted = 24;
    w.sample(1, true);
    w.sample(30);
    CHECK(w.away_ms() == 31);
  }
  SECTION("also where nobody sampled meanwhile") {
    Watched w(abi::Direction::recv);
    for (int i = 0; i < 4; ++i) w.now_ms += 50, w.visit();
    w.sample(1, true);
    CHECK(w.away_ms() == 200);
  }
  SECTION("no gap that a coarse clock cannot tell") {
    Watched w(abi::Direction::recv);
    for (int i = 0; i < 40; ++i) w.now_ms += 9, w.visit();
    w.sample(9);
    CHECK(w.away_ms() == 0);
  }
  SECTION("no gap before the kernel was there") {
    Watched w(abi::Direction::recv);
    w.record.away_ns = 500 * ms;  // of this operation; the GPU began late
    w.sample(20, true);
    CHECK(w.away_ms() == 20);
  }
  SECTION("one that has not begun with the kernel's steps, until the kernel has ended") {
    Watched w(abi::Direction::recv);
    w.record.base = 8;
    w.sample(30);
    CHECK(w.away_ms() == 30);
    w.link.limit = 8;
    w.sample(30);
    CHECK(w.away_ms() == 30);
  }
  SECTION("one that began late") {
    Watched w(abi::Direction::recv);
    w.record.base = 8;
    w.sample(30);
    w.record.base = 16;
    w.record.began_ns = w.record.visited_ns = w.now_ms * ms;
    w.record.away_before_ns = w.record.away_ns;
    w.sample(30, true);
    CHECK(w.away_ms() == 30);
  }
  SECTION("not in the work of a later kernel") {
    Watched w(abi::Direction::recv);
    w.sample(20);
    w.sample(1, true);
    const uint64_t away_before_ms = w.away_ms();
    w.record.away_before_ns = w.record.away_ns;
    w.record.base = 24;
    w.record.began_ns = w.now_ms * ms;
    w.sample(30);
    w.sample(1, true);
    CHECK(w.away_ms() == away_before_ms);
  }
}

}  // namespace
}  // namespace ccld::probe
