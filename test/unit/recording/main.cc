#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "spdlog/spdlog.h"

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::off);  // tests fill disks on purpose
  return Catch::Session().run(argc, argv);
}
