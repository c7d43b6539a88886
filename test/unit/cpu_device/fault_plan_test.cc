#include "nccl/cpu_device/control/fault_plan.h"

#include <catch2/catch.hpp>

using namespace ccld::cpu_device;

TEST_CASE("An empty text plants nothing", "[control]") {
  const ParsedFaultPlan parsed = parse_fault_plan("\n  # only a comment\n\n");
  REQUIRE(parsed.complaints.empty());
  REQUIRE(parsed.plan.clock_slowdown == 1.0);
  REQUIRE_FALSE(parsed.plan.freeze_device);
  REQUIRE(parsed.plan.frozen_blocks.none());
}

TEST_CASE("Every command is understood", "[control]") {
  const ParsedFaultPlan parsed =
      parse_fault_plan("clock_slowdown 4.5 # thermal\nfreeze_block 1\n\tfreeze_block 1023\r\nfreeze_device");
  REQUIRE(parsed.complaints.empty());
  REQUIRE(parsed.plan.clock_slowdown == 4.5);
  REQUIRE(parsed.plan.freeze_device);
  REQUIRE(parsed.plan.frozen_blocks.count() == 2);
  REQUIRE(parsed.plan.frozen_blocks.test(1));
  REQUIRE(parsed.plan.frozen_blocks.test(1023));
}

TEST_CASE("A bad line is described with its number and leaves the others alone", "[control]") {
  for (const char* bad :
       {"clock_slowdown", "clock_slowdown 0.5", "clock_slowdown fast", "clock_slowdown 2 3", "clock_slowdown nan",
        "clock_slowdown 1e9", "freeze_block", "freeze_block -1", "freeze_block 1024", "freeze_block 1 2",
        "freeze_device now", "thaw", "gpu", "gpu 1", "gpu x freeze_device", "gpu 64 freeze_device", "gpu 1 thaw",
        "gpu 1 gpu 2 freeze_device", "gpu 1 clock_slowdown 0"}) {
    const ParsedFaultPlan parsed = parse_fault_plan("freeze_block 2\n" + std::string(bad) + "\n");
    REQUIRE(parsed.complaints.size() == 1);
    REQUIRE(parsed.complaints[0].find("line 2 \"" + std::string(bad) + "\"") == 0);
    REQUIRE(parsed.plan.frozen_blocks.test(2));
    REQUIRE(parsed.plan.clock_slowdown == 1.0);
    REQUIRE_FALSE(parsed.plan.freeze_device);
    REQUIRE(parsed.plan.of_gpu.empty());
  }
}

TEST_CASE("A command for one GPU holds there, together with those for all", "[control]") {
  const ParsedFaultPlan parsed = parse_fault_plan(
      "gpu 3 freeze_block 1\ngpu 3 clock_slowdown 2\nclock_slowdown 4\nfreeze_block 0\ngpu 5 clock_slowdown 8\ngpu 5 "
      "freeze_device");
  REQUIRE(parsed.complaints.empty());
  REQUIRE(parsed.plan.on_gpu(0).frozen_blocks.count() == 1);
  REQUIRE(parsed.plan.on_gpu(3).frozen_blocks.count() == 2);
  REQUIRE(parsed.plan.on_gpu(3).clock_slowdown == 4.0);
  REQUIRE_FALSE(parsed.plan.on_gpu(3).freeze_device);
  REQUIRE(parsed.plan.on_gpu(5).clock_slowdown == 8.0);
  REQUIRE(parsed.plan.on_gpu(5).freeze_device);
}
