#include "nccl/cpu_device/cuda/launch.h"

#include <cuda.h>
#include <catch2/catch.hpp>
#include <cstring>

#include "nccl/cpu_device/device/kernel_registration.h"
#include "test/unit/cpu_device/gate.h"
#include "test/unit/cpu_device/launch.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

struct Wide {
  long long values[4];
};

void mixed_arguments(char a, double b, Wide wide, int* result) {
  if (current_fiber->linear_index == 0) *result = a + static_cast<int>(b) + static_cast<int>(wide.values[3]);
}

void unregistered(int) {}

}  // namespace

TEST_CASE("Arguments reach a kernel whatever their sizes, and are copied at the launch", "[launch]") {
  void* function = kernel(&mixed_arguments);
  int* result;
  cudaMalloc(reinterpret_cast<void**>(&result), sizeof *result);
  char a = 1;
  double b = 20;
  Wide wide = {{0, 0, 0, 300}};
  void* arguments[] = {&a, &b, &wide, &result};
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  Gate gate;
  gate.close_stream(stream);
  REQUIRE(cudaLaunchKernel(function, dim3(1), dim3(32), arguments, 0, stream) == cudaSuccess);
  b = 0;
  wide.values[3] = 0;
  gate.open();
  cudaStreamSynchronize(stream);
  REQUIRE(*result == 321);
  cudaStreamDestroy(stream);
  cudaFree(result);
}

TEST_CASE("The driver's launch takes one buffer, missing bytes are zero", "[launch]") {
  void* function = kernel(&mixed_arguments);
  int* result;
  cudaMalloc(reinterpret_cast<void**>(&result), sizeof *result);
  struct {
    char a;
    double b;
    Wide wide;
    int* result;
  } buffer{5, 6, {{0, 0, 0, 7}}, result};
  size_t bytes = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  cudaFunction_t handle;
  REQUIRE(cudaGetFuncBySymbol(&handle, function) == cudaSuccess);
  REQUIRE(cuLaunchKernelEx(&config, handle, nullptr, extra) == CUDA_SUCCESS);
  cudaDeviceSynchronize();
  REQUIRE(*result == 18);
  bytes = 4000;  // more than the kernel takes
  REQUIRE(cuLaunchKernelEx(&config, handle, nullptr, extra) == CUDA_ERROR_INVALID_VALUE);
  cudaFree(result);
  cudaGetLastError();
}

TEST_CASE("Impossible shapes are refused", "[launch]") {
  const KernelBody nothing = [] {};
  REQUIRE(launch(nullptr, 1, 1025, &nothing) == cudaErrorInvalidConfiguration);
  REQUIRE(launch(nullptr, 0, 32, &nothing) == cudaErrorInvalidConfiguration);
  cudaGetLastError();
}

SCENARIO_PROCESS(launch_what_is_no_kernel) {
  int value = 1;
  void* arguments[] = {&value};
  const void* function = reinterpret_cast<const void*>(&unregistered);
  return cudaLaunchKernel(function, dim3(1), dim3(1), arguments, 0, nullptr) == cudaErrorInvalidDeviceFunction ? 0 : 1;
}

TEST_CASE("A launch of what is no kernel is an error that names it", "[launch]") {
  const ScenarioResult result = run_scenario("launch_what_is_no_kernel");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("which is not registered as a kernel"));
}
