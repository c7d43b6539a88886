#include "nccl/cpu_device/cuda/errors.h"

#include <catch2/catch.hpp>
#include <string>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

TEST_CASE("The last error stays until it is fetched", "[errors]") {
  cudaGetLastError();
  REQUIRE(cudaSetDevice(1000) == cudaErrorInvalidDevice);
  int device;
  REQUIRE(cudaGetDevice(&device) == cudaSuccess);
  REQUIRE(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaErrorInvalidDevice);
  REQUIRE(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("Errors have the names of CUDA's headers", "[errors]") {
  REQUIRE(std::string(cudaGetErrorName(cudaSuccess)) == "cudaSuccess");
  REQUIRE(std::string(cudaGetErrorName(cudaErrorNotReady)) == "cudaErrorNotReady");
  REQUIRE(std::string(cudaGetErrorString(cudaErrorStreamCaptureImplicit)) == "cudaErrorStreamCaptureImplicit");
  const char* name = nullptr;
  REQUIRE(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS);
  REQUIRE(std::string(name) == "CUDA_ERROR_OUT_OF_MEMORY");
  REQUIRE(cuGetErrorName(static_cast<CUresult>(54321), &name) == CUDA_ERROR_INVALID_VALUE);
}

SCENARIO_PROCESS(call_what_is_missing) {
  cudaArray_t array;
  cudaChannelFormatDesc format{};
  cudaExtent extent{};
  for (int i = 0; i < 3; ++i) {
    if (cudaMalloc3DArray(&array, &format, extent, 0) != cudaErrorNotSupported) return 1;
  }
  CUarray driver_array;
  if (cuArrayCreate(&driver_array, nullptr) != CUDA_ERROR_NOT_SUPPORTED) return 2;
  return cudaGetLastError() == cudaErrorNotSupported ? 0 : 3;
}

TEST_CASE("A function that is missing says its name once and answers not supported", "[errors]") {
  const ScenarioResult result = run_scenario("call_what_is_missing");
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.says("cudaMalloc3DArray is not supported by the CPU device\n"));
  REQUIRE(result.errors.find("cudaMalloc3DArray") == result.errors.rfind("cudaMalloc3DArray"));
  REQUIRE(result.says("cuArrayCreate"));
}
