#include <catch2/catch.hpp>

#include "nccl/cpu_device/engine/engine.h"

using namespace ccld::cpu_device;

TEST_CASE("An unknown function is not a kernel", "[engine]") {
  int not_a_kernel;
  REQUIRE(find_kernel(&not_a_kernel) == nullptr);
}

TEST_CASE("Registering a function again changes nothing", "[engine]") {
  static int function;
  register_kernel(&function, {nullptr, 8, 16, "first", 0, nullptr, nullptr});
  const KernelInfo* info = find_kernel(&function);
  register_kernel(&function, {nullptr, 99, 99, "second", 0, nullptr, nullptr});
  REQUIRE(find_kernel(&function) == info);
  REQUIRE(info->argument_bytes == 8);
  REQUIRE(std::string(info->name) == "first");
}
