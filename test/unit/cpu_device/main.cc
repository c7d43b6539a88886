#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "test/unit/cpu_device/scenario.h"

int main(int argc, char** argv) {
  int exit_code;
  if (ccld::cpu_device::run_requested_scenario(argc, argv, &exit_code)) return exit_code;
  return Catch::Session().run(argc, argv);
}
