#include "nccl/cpu_device/engine/watchdog.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>

#include "nccl/cpu_device/base/clock.h"
#include "test/unit/cpu_device/launch.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

void burn_cpu(uint64_t duration_ns, bool yielding) {
  const uint64_t end_ns = thread_cpu_ns() + duration_ns;
  while (thread_cpu_ns() < end_ns) {
    if (yielding) barrier(1, 1);
  }
}

}  // namespace

SCENARIO_PROCESS(poll_without_yield) {
  run(1, 32, [] {
    // The watchdog's first look, the limit of 1 s and its next look come to 2 s; the rest is for a busy machine.
    if (thread_index() == 0) burn_cpu(3'000'000'000, false);
  });
  return 0;
}

SCENARIO_PROCESS(compute_with_yields) {
  run(1, 1, [] { burn_cpu(1'700'000'000, true); });
  return 0;
}

TEST_CASE("A block that computes without yielding is reported once, by name", "[engine]") {
  const ScenarioResult result = run_scenario("poll_without_yield", {{"CCLD_CPU_DEVICE_WATCHDOG_S", "1"}});
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("kernel body, block 0 has computed for 1 s"));
  REQUIRE(result.errors.find("has computed") == result.errors.rfind("has computed"));
}

TEST_CASE("A block that yields is not reported", "[engine]") {
  const ScenarioResult result = run_scenario("compute_with_yields", {{"CCLD_CPU_DEVICE_WATCHDOG_S", "1"}});
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.errors.empty());
}
