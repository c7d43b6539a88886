#include "spdlog/spdlog.h"
#include "test/support/catch/catch.h"

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);  // tests fill disks on purpose
  return ccld::test::run_tests(argc, argv);
}
