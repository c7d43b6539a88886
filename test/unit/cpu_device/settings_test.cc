#include "nccl/cpu_device/base/settings.h"

#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

SCENARIO_PROCESS(print_device_count) {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}

TEST_CASE("A setting takes effect", "[settings]") {
  REQUIRE(run_scenario("print_device_count").exit_code == 8);
  REQUIRE(run_scenario("print_device_count", {{"CCLD_CPU_DEVICE_COUNT", "3"}}).exit_code == 3);
}

TEST_CASE("A bad setting ends the program with a line that names it", "[settings]") {
  for (const char* bad : {"0", "65", "eight", "-1", "3x", "1e1"}) {
    const ScenarioResult result = run_scenario("print_device_count", {{"CCLD_CPU_DEVICE_COUNT", bad}});
    REQUIRE(result.exit_code == 2);
    REQUIRE(result.says("CCLD_CPU_DEVICE_COUNT=" + std::string(bad) + ": expected a whole number from 1 to 64"));
  }
}

TEST_CASE("A choice takes its words only", "[settings]") {
  const ScenarioResult result = run_scenario("print_device_count", {{"CCLD_CPU_DEVICE_FOREIGN_KERNELS", "run"}});
  REQUIRE(result.exit_code == 2);
  REQUIRE(result.says("CCLD_CPU_DEVICE_FOREIGN_KERNELS=run: expected refuse or skip"));
}

TEST_CASE("What a machine refuses is named, or the program ends", "[settings]") {
  const ScenarioResult result = run_scenario("print_device_count", {{"CCLD_CPU_DEVICE_REFUSE", "registration,all"}});
  REQUIRE(result.exit_code == 2);
  REQUIRE(result.says("CCLD_CPU_DEVICE_REFUSE=registration,all: expected registration, portable, or both with a comma"));
}

TEST_CASE("The README lists every setting with its default and meaning", "[settings]") {
  std::ifstream file(CCLD_CPU_DEVICE_README);
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  REQUIRE_FALSE(readme.empty());
  size_t count;
  const SettingInfo* settings = setting_table(&count);
  for (size_t i = 0; i < count; ++i) {
    const std::string fallback = *settings[i].default_text != '\0' ? settings[i].default_text : "none";
    const std::string row =
        std::string("| `") + settings[i].variable + "` | " + fallback + " | " + settings[i].help + " |";
    INFO(row);
    REQUIRE(readme.find(row) != std::string::npos);
  }
}
