// Variables of GPU code (nccl/cpu_device/cuda/symbols.cc).
#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

extern "C" {
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, size_t, int, int);
}

namespace {

char shadow[16];

}  // namespace

SCENARIO_PROCESS(use_symbols) {
  __cudaRegisterVar(nullptr, shadow, nullptr, "table", 0, sizeof shadow, 0, 0);
  size_t bytes = 0;
  if (cudaGetSymbolSize(&bytes, shadow) != cudaSuccess || bytes != 16) return 1;
  const int written[4] = {1, 2, 3, 4};
  if (cudaMemcpyToSymbol(shadow, written, 16, 0, cudaMemcpyHostToDevice) != cudaSuccess) return 2;
  int read = 0;
  if (cudaMemcpyFromSymbol(&read, shadow, 4, 8, cudaMemcpyDeviceToHost) != cudaSuccess || read != 3) return 3;
  if (cudaMemcpyToSymbol(shadow, written, 16, 4, cudaMemcpyHostToDevice) != cudaErrorInvalidValue) return 4;

  void *first = nullptr, *second = nullptr;
  if (cudaGetSymbolAddress(&first, shadow) != cudaSuccess) return 5;
  cudaSetDevice(1);
  if (cudaGetSymbolAddress(&second, shadow) != cudaSuccess || first == second) return 6;
  if (cudaMemcpyFromSymbol(&read, shadow, 4, 8, cudaMemcpyDeviceToHost) != cudaSuccess || read != 0) return 7;
  return cudaGetSymbolAddress(&first, &read) == cudaErrorInvalidSymbol ? 0 : 8;
}

TEST_CASE("A variable of GPU code has memory on each GPU, and who may miss its initial value is told", "[symbols]") {
  const ScenarioResult result = run_scenario("use_symbols");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("variable table is initialised by GPU code"));
}

SCENARIO_PROCESS(use_managed_variable) {
  void* pointer = nullptr;
  __cudaRegisterManagedVar(nullptr, &pointer, nullptr, "counter", 0, sizeof(int), 0, 0);
  if (pointer == nullptr) return 1;
  *static_cast<int*>(pointer) += 7;
  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, pointer);
  return attributes.type == cudaMemoryTypeManaged ? 0 : 2;
}

TEST_CASE("A managed variable is there before anyone calls the runtime", "[symbols]") {
  const ScenarioResult result = run_scenario("use_managed_variable");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("variable counter is initialised by GPU code"));
}
