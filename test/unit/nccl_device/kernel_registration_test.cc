#include "nccl/cpu_device/device/kernel_registration.h"

#include <catch2/catch.hpp>
#include <cstring>

namespace ccld::cpu_device {
namespace {

struct alignas(16) Wide {
  uint64_t words[4];
};

struct Seen {
  char c;
  double d;
  Wide w;
  const int* p;
} seen;

void remember(char c, double d, const Wide w, const int* p) { seen = Seen{c, d, w, p}; }
void no_parameters() {}

TEST_CASE("parameters lie where CUDA puts them, each at its own alignment") {
  const KernelInfo* info = find_kernel(kernel(&remember, 64, "remember"));
  REQUIRE(info != nullptr);
  CHECK(info->argument_count == 4);
  CHECK(info->argument_offsets[1] == 8);
  CHECK(info->argument_offsets[2] == 16);
  CHECK(info->argument_offsets[3] == 48);
  CHECK(info->argument_sizes[2] == sizeof(Wide));
  CHECK(info->argument_bytes == 56);
  CHECK(info->static_shared_bytes == 64);
}

TEST_CASE("a registered kernel is called with the values of its parameter block") {
  const KernelInfo* info = find_kernel(kernel(&remember));
  alignas(16) char block[64] = {};
  const int target = 0;
  const double number = 2.5;
  const Wide wide = {{1, 2, 3, 4}};
  const int* pointer = &target;
  block[0] = 'x';
  memcpy(block + 8, &number, sizeof number);
  memcpy(block + 16, &wide, sizeof wide);
  memcpy(block + 48, &pointer, sizeof pointer);
  info->invoke(reinterpret_cast<const void*>(&remember), block);
  CHECK(seen.c == 'x');
  CHECK(seen.d == 2.5);
  CHECK(seen.w.words[3] == 4);
  CHECK(seen.p == &target);
}

TEST_CASE("a kernel without parameters is registered too") {
  const KernelInfo* info = find_kernel(kernel(&no_parameters));
  REQUIRE(info != nullptr);
  CHECK(info->argument_count == 0);
  CHECK(info->argument_bytes == 0);
}

TEST_CASE("a function that nobody registered is not found") {
  static int not_a_kernel;
  CHECK(find_kernel(&not_a_kernel) == nullptr);
}

}  // namespace
}  // namespace ccld::cpu_device
