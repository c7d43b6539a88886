#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

std::string to_hex(const cudaIpcMemHandle_t& handle) {
  std::string text;
  for (unsigned char byte : handle.reserved) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", byte);
    text += digits;
  }
  return text;
}

cudaIpcMemHandle_t from_hex(const std::string& text) {
  cudaIpcMemHandle_t handle;
  for (size_t i = 0; i < sizeof handle.reserved; ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

}  // namespace

// Maps the parent's memory, checks what it wrote, answers, and checks the device.
SCENARIO_PROCESS(open_ipc_memory) {
  int* memory = nullptr;
  if (cudaIpcOpenMemHandle(reinterpret_cast<void**>(&memory), from_hex(scenario_argument()),
                           cudaIpcMemLazyEnablePeerAccess) != cudaSuccess) {
    return 1;
  }
  if (memory[0] != 1234 || memory[1000] != 5678) return 2;
  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, memory);
  if (attributes.type != cudaMemoryTypeDevice || attributes.device != 3) return 3;
  const int answer = 42;
  if (cudaMemcpy(memory + 1, &answer, sizeof answer, cudaMemcpyHostToDevice) != cudaSuccess) return 4;
  if (cudaIpcCloseMemHandle(memory) != cudaSuccess) return 5;
  return cudaIpcCloseMemHandle(memory) == cudaErrorInvalidValue ? 0 : 6;
}

SCENARIO_PROCESS(offer_ipc_memory) {
  void* memory;
  cudaIpcMemHandle_t handle;
  cudaMalloc(&memory, 4096);
  cudaIpcGetMemHandle(&handle, memory);
  fputs(to_hex(handle).c_str(), stderr);
  return 0;
}

TEST_CASE("Two processes share device memory through a handle", "[ipc]") {
  cudaSetDevice(3);
  int* memory;
  int* before;
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&before), 12345) == cudaSuccess);  // so that the offset is not zero
  REQUIRE(cudaMalloc(reinterpret_cast<void**>(&memory), 8192) == cudaSuccess);
  cudaSetDevice(0);
  memory[0] = 1234;
  memory[1] = 0;
  memory[1000] = 5678;
  cudaIpcMemHandle_t handle;
  REQUIRE(cudaIpcGetMemHandle(&handle, memory) == cudaSuccess);
  REQUIRE(run_scenario("open_ipc_memory", {}, to_hex(handle)).exit_code == 0);
  REQUIRE(memory[1] == 42);
  cudaFree(memory);
  cudaFree(before);
}

TEST_CASE("A handle of a process that ended is refused", "[ipc]") {
  const std::string handle = run_scenario("offer_ipc_memory").errors;
  REQUIRE(run_scenario("open_ipc_memory", {}, handle).exit_code == 1);
}

TEST_CASE("Only device memory has a handle", "[ipc]") {
  void* pinned;
  cudaIpcMemHandle_t handle;
  cudaMallocHost(&pinned, 100);
  REQUIRE(cudaIpcGetMemHandle(&handle, pinned) == cudaErrorInvalidValue);
  memset(&handle, 1, sizeof handle);
  void* nothing;
  REQUIRE(cudaIpcOpenMemHandle(&nothing, handle, 0) == cudaErrorInvalidValue);
  cudaFreeHost(pinned);
  cudaGetLastError();
}
