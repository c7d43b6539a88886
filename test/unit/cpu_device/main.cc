#include "test/support/catch/catch.h"
#include "test/unit/cpu_device/scenario.h"

int main(int argc, char** argv) {
  int exit_code;
  if (ccld::cpu_device::run_requested_scenario(argc, argv, &exit_code)) return exit_code;
  return ccld::test::run_tests(argc, argv);
}
