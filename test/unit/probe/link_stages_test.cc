#include "probe/agent/link_stages.h"

#include <catch2/catch.hpp>

namespace ccld::probe {
namespace {

TEST_CASE("the mean is weighted by the steps that reached the stage at each time") {
  Stage stage;
  stage.reached(100, 100, steps_unlimited, 5);
  CHECK(stage.steps() == 0);
  CHECK(stage.mean_ns() == 0);
  stage.reached(100, 101, steps_unlimited, 1000);  // one step at 1000
  stage.reached(100, 101, steps_unlimited, 1500);
  stage.reached(100, 104, steps_unlimited, 2000);  // three at 2000
  CHECK(stage.steps() == 4);
  CHECK(stage.mean_ns() == 1750);
}

TEST_CASE("steps before the kernel's first and after its last do not count") {
  Stage stage;
  stage.reached(100, 90, steps_unlimited, 1000);
  CHECK(stage.steps() == 0);
  stage.reached(100, 200, 8, 2000);
  CHECK(stage.steps() == 8);
  stage.reached(100, 300, 8, 9000);
  CHECK(stage.mean_ns() == 2000);
}

TEST_CASE("steps wrap") {
  Stage stage;
  stage.reached(0xfffffffeu, 0xffffffffu, steps_unlimited, 10);
  stage.reached(0xfffffffeu, 2, steps_unlimited, 50);
  CHECK(stage.steps() == 4);
  CHECK(stage.mean_ns() == 40);
}

TEST_CASE("realtime in nanoseconds keeps its precision") {
  Stage stage;
  const int64_t t0 = 1700000000123456789;
  for (uint32_t i = 1; i <= 1000; ++i) stage.reached(0, i, steps_unlimited, t0 + i * 1000);
  CHECK(stage.mean_ns() == t0 + 500500);
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
  link.proxy_reached(0, proxy, {}, 200);
  CHECK_FALSE(link.settled());
  proxy.done = 24;
  link.proxy_reached(0, proxy, {}, 300);
  CHECK(link.settled());
  CHECK(link.wire.mean_ns() == 200);
  CHECK(link.done.mean_ns() == 250);
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
  link.proxy_reached(0, proxy, {}, 200);
  link.close(1000);
  CHECK(link.wire.mean_ns() == 600);
  CHECK(link.done.mean_ns() == 1000);
}

TEST_CASE("a proxy that never worked for the kernel tells nothing about it") {
  LinkTrack link;
  link.direction = abi::Direction::send;
  link.base_step = 16;
  link.gpu.reached(16, 24, steps_unlimited, 100);
  abi::ProxyRecord proxy{};
  proxy.base = proxy.transmitted = proxy.done = 8;
  link.proxy_reached(0, proxy, {}, 200);
  link.close(1000);
  CHECK_FALSE(link.has_proxy);
  CHECK(link.done.mean_ns() == 0);
}

// A proxy that hands over four steps at once, and a link that follows it in samples of a millisecond.
struct Watched {
  explicit Watched(abi::Direction direction) {
    link.direction = direction;
    link.base_step = 16;
    link.gpu.reached(16, 24, steps_unlimited, 0);
    record.direction = static_cast<uint8_t>(direction);
    record.base = record.posted = record.received = record.transmitted = record.done = 16;
    record.net_device = 0;
    sample(true);
  }
  void sample(bool visited, unsigned ms = 1) {
    const uint64_t before_ns = now_ns;
    now_ns += ms * 1000000;
    if (visited) ++record.ticks;
    visits.sampled(old, record, before_ns, now_ns);
    old = record;
    link.proxy_reached(0, record, visits, static_cast<int64_t>(now_ns));
  }
  uint64_t now_ns = 1000000;
  abi::ProxyRecord record{}, old{};
  ProxyVisits visits;
  LinkTrack link;
};

TEST_CASE("what a proxy finds after it did not look for a while waited for it") {
  const auto direction = GENERATE(abi::Direction::send, abi::Direction::recv);
  Watched w(direction);
  const bool sends = direction == abi::Direction::send;
  uint64_t &begun = sends ? w.record.transmitted : w.record.posted, &found = sends ? w.record.done : w.record.received;
  begun = 20;
  w.sample(true);

  SECTION("all of it") {
    for (int i = 0; i < 30; ++i) w.sample(false);
    found = 20;
    w.sample(true);
    CHECK(w.link.unvisited_mean_us() == 30000);
  }
  SECTION("nothing, if it looked all the time") {
    for (int i = 0; i < 30; ++i) w.sample(true);
    found = 20;
    w.sample(true);
    CHECK(w.link.unvisited_mean_us() == 0);
  }
  SECTION("only the last time, if it looked in between and had not found them") {
    for (int i = 0; i < 30; ++i) w.sample(false);
    w.sample(true);
    for (int i = 0; i < 10; ++i) w.sample(false);
    found = 20;
    w.sample(true);
    CHECK(w.link.unvisited_mean_us() == 10000);
  }
  SECTION("not those that were handed to the network after it had come back") {
    for (int i = 0; i < 30; ++i) w.sample(false);
    begun = found = 24;
    w.sample(true);
    CHECK(w.link.unvisited_mean_us() == 15000);  // four of eight
  }
  SECTION("nothing, where nobody sampled either") {
    found = 20;
    w.sample(true, 30);
    CHECK(w.link.unvisited_mean_us() == 0);
  }
}

TEST_CASE("a proxy without work has nothing to look for") {
  Watched w(abi::Direction::send);
  w.record.transmitted = w.record.done = 20;
  w.sample(true);
  for (int i = 0; i < 30; ++i) w.sample(false);  // between two operations
  w.record.transmitted = w.record.done = 24;
  w.sample(true);
  CHECK(w.link.unvisited_mean_us() == 0);
}

}  // namespace
}  // namespace ccld::probe
