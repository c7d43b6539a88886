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
  link.proxy_reached(proxy, 200);
  CHECK_FALSE(link.settled());
  proxy.done = 24;
  link.proxy_reached(proxy, 300);
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
  link.proxy_reached(proxy, 200);
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
  link.proxy_reached(proxy, 200);
  link.close(1000);
  CHECK_FALSE(link.has_proxy);
  CHECK(link.done.mean_ns() == 0);
}

}  // namespace
}  // namespace ccld::probe
