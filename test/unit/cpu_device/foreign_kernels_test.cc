#include "nccl/cpu_device/cuda/foreign_kernels.h"

#include <catch2/catch.hpp>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

extern "C" {
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*, void*, int*);
unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, void*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*);
}

namespace {

void gpu_thing(int) {}

const void* register_gpu_thing() {
  const void* function = reinterpret_cast<const void*>(&gpu_thing);
  __cudaRegisterFunction(nullptr, static_cast<const char*>(function), nullptr, "_Z9gpu_thingi", 0, nullptr, nullptr,
                         nullptr, nullptr, nullptr);
  return function;
}

cudaError_t launch(const void* function, cudaStream_t stream, unsigned threads = 1) {
  int value = 1;
  void* arguments[] = {&value};
  return cudaLaunchKernel(function, dim3(1), dim3(threads), arguments, 0, stream);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

SCENARIO_PROCESS(launch_gpu_code) {
  const void* function = register_gpu_thing();
  for (int i = 0; i < 3; ++i) {
    if (launch(function, nullptr) != cudaErrorNoKernelImageForDevice) return 1;
  }
  if (cudaGetLastError() != cudaErrorNoKernelImageForDevice) return 2;
  cudaFuncAttributes attributes;
  int blocks = 0;
  if (cudaFuncGetAttributes(&attributes, function) != cudaErrorNoKernelImageForDevice) return 3;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0) != cudaErrorNoKernelImageForDevice)
    return 4;
  return 0;
}

TEST_CASE("A kernel that is GPU code is refused, and named once", "[foreign]") {
  const ScenarioResult result = run_scenario("launch_gpu_code");
  REQUIRE(result.exit_code == 0);
  REQUIRE(count_of(result.errors, "kernel gpu_thing(int) is GPU code") == 1);
  REQUIRE(result.says("refused (CCLD_CPU_DEVICE_FOREIGN_KERNELS=skip skips such kernels)"));
}

SCENARIO_PROCESS(skip_gpu_code) {
  const void* function = register_gpu_thing();
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  for (int i = 0; i < 3; ++i) {
    if (launch(function, stream) != cudaSuccess) return 1;
  }
  if (cudaStreamSynchronize(stream) != cudaSuccess) return 2;
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, function) != cudaSuccess || attributes.maxThreadsPerBlock != 1024) return 3;
  int blocks = 0;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0) != cudaSuccess || blocks != 16) return 4;
  if (launch(function, stream, 1025) != cudaErrorInvalidConfiguration) return 5;

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  if (launch(function, stream) != cudaSuccess) return 6;
  cudaStreamEndCapture(stream, &graph);
  size_t nodes = 0;
  if (cudaGraphGetNodes(graph, nullptr, &nodes) != cudaSuccess || nodes != 1) return 7;
  if (cudaGraphInstantiate(&executable, graph, 0) != cudaSuccess) return 8;
  if (cudaGraphLaunch(executable, stream) != cudaSuccess || cudaStreamSynchronize(stream) != cudaSuccess) return 9;
  return 0;
}

TEST_CASE("A kernel that is GPU code is skipped when that is asked for, also in a graph, and named once", "[foreign]") {
  const ScenarioResult result = run_scenario("skip_gpu_code", {{"CCLD_CPU_DEVICE_FOREIGN_KERNELS", "skip"}});
  REQUIRE(result.exit_code == 0);
  REQUIRE(count_of(result.errors, "kernel gpu_thing(int) is GPU code") == 1);
  REQUIRE(result.says("skipped"));
}

TEST_CASE("A launch inside the arguments of another launch leaves that one its shape", "[foreign]") {
  REQUIRE(__cudaPushCallConfiguration(dim3(3), dim3(4), 5, nullptr) == 0);
  REQUIRE(__cudaPushCallConfiguration(dim3(1), dim3(2), 0, nullptr) == 0);
  dim3 grid, block;
  size_t bytes;
  void* stream;
  REQUIRE(__cudaPopCallConfiguration(&grid, &block, &bytes, &stream) == cudaSuccess);
  REQUIRE(grid.x == 1);
  REQUIRE(__cudaPopCallConfiguration(&grid, &block, &bytes, &stream) == cudaSuccess);
  REQUIRE(grid.x == 3);
  REQUIRE(block.x == 4);
  REQUIRE(bytes == 5);
  REQUIRE(__cudaPopCallConfiguration(&grid, &block, &bytes, &stream) == cudaErrorMissingConfiguration);
  cudaGetLastError();
}
