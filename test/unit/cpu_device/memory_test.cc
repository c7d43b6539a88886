#include "nccl/cpu_device/cuda/memory.h"

#include <sys/mman.h>

#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <numeric>
#include <vector>

#include "test/unit/cpu_device/gate.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

template <class T>
T* device_array(size_t count) {
  void* address = nullptr;
  REQUIRE(cudaMalloc(&address, count * sizeof(T)) == cudaSuccess);
  return static_cast<T*>(address);
}

cudaMemoryType type_of(const void* address) {
  cudaPointerAttributes attributes;
  REQUIRE(cudaPointerGetAttributes(&attributes, address) == cudaSuccess);
  return attributes.type;
}

}  // namespace

TEST_CASE("What is copied to the device comes back", "[memory]") {
  std::vector<int> source(10000), target(10000);
  std::iota(source.begin(), source.end(), 7);
  int* device = device_array<int>(source.size());
  REQUIRE(cudaMemcpy(device, source.data(), source.size() * 4, cudaMemcpyHostToDevice) == cudaSuccess);
  REQUIRE(cudaMemcpy(target.data(), device, target.size() * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  REQUIRE(source == target);
  REQUIRE(cudaMemset(device, 0, source.size() * 4) == cudaSuccess);
  REQUIRE(cudaMemcpy(target.data(), device, target.size() * 4, cudaMemcpyDefault) == cudaSuccess);
  REQUIRE(target == std::vector<int>(target.size(), 0));
  REQUIRE(cudaFree(device) == cudaSuccess);
}

TEST_CASE("A pageable source may change as soon as the copy call returned", "[memory]") {
  constexpr size_t count = 1 << 20;
  int* device = device_array<int>(count);
  std::vector<int> source(count, 1);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Gate gate;
  gate.close_stream(stream);
  REQUIRE(cudaMemcpyAsync(device, source.data(), count * 4, cudaMemcpyHostToDevice, stream) == cudaSuccess);
  std::fill(source.begin(), source.end(), 2);
  gate.open();
  cudaStreamSynchronize(stream);
  REQUIRE(device[0] == 1);
  REQUIRE(device[count - 1] == 1);
  cudaStreamDestroy(stream);
  cudaFree(device);
}

TEST_CASE("A pinned source is read when the stream gets there", "[memory]") {
  int* device = device_array<int>(1);
  int* pinned;
  cudaMallocHost(reinterpret_cast<void**>(&pinned), sizeof(int));
  *pinned = 1;
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Gate gate;
  gate.close_stream(stream);
  cudaMemcpyAsync(device, pinned, sizeof(int), cudaMemcpyHostToDevice, stream);
  *pinned = 2;
  gate.open();
  cudaStreamSynchronize(stream);
  REQUIRE(*device == 2);
  cudaStreamDestroy(stream);
  REQUIRE(cudaFreeHost(pinned) == cudaSuccess);
  cudaFree(device);
}

TEST_CASE("A copy to pageable memory has arrived when the call returns", "[memory]") {
  int* device = device_array<int>(1);
  *device = 5;
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  int target = 0;
  cudaMemcpyAsync(&target, device, sizeof target, cudaMemcpyDeviceToHost, stream);
  REQUIRE(target == 5);
  cudaStreamDestroy(stream);
  cudaFree(device);
}

TEST_CASE("A synchronous copy follows work of blocking streams", "[memory]") {
  int* device = device_array<int>(1);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  struct Write {
    static void run(void* data) {
      for (volatile int i = 0; i < 3'000'000; i = i + 1) continue;
      *static_cast<int*>(data) = 9;
    }
  };
  cudaLaunchHostFunc(stream, &Write::run, device);
  int target = 0;
  REQUIRE(cudaMemcpy(&target, device, sizeof target, cudaMemcpyDeviceToHost) == cudaSuccess);
  REQUIRE(target == 9);
  cudaStreamDestroy(stream);
  cudaFree(device);
}

TEST_CASE("cudaFree waits for work that may still use the memory", "[memory]") {
  static int* device;
  device = device_array<int>(1024);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaLaunchHostFunc(
      stream,
      [](void*) {
        for (volatile int i = 0; i < 3'000'000; i = i + 1) continue;
        device[5] = 1;  // would end the process if the memory were gone
      },
      nullptr);
  REQUIRE(cudaFree(device) == cudaSuccess);
  REQUIRE(cudaStreamQuery(stream) == cudaSuccess);
  cudaStreamDestroy(stream);
}

TEST_CASE("cudaFreeAsync frees in stream order", "[memory]") {
  void* memory = nullptr;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  REQUIRE(cudaMallocAsync(&memory, 4096, stream) == cudaSuccess);
  Gate gate;
  gate.close_stream(stream);
  REQUIRE(cudaFreeAsync(memory, stream) == cudaSuccess);
  gate.wait_for_arrival();
  REQUIRE(type_of(memory) == cudaMemoryTypeDevice);
  gate.open();
  cudaStreamSynchronize(stream);
  REQUIRE(type_of(memory) == cudaMemoryTypeUnregistered);
  cudaStreamDestroy(stream);
}

TEST_CASE("CUDA knows what an address is", "[memory]") {
  int local = 0;
  int* device = device_array<int>(100);
  void *pinned, *managed;
  cudaHostAlloc(&pinned, 100, cudaHostAllocMapped);
  cudaMallocManaged(&managed, 100, cudaMemAttachGlobal);
  REQUIRE(type_of(&local) == cudaMemoryTypeUnregistered);
  REQUIRE(type_of(device + 99) == cudaMemoryTypeDevice);
  REQUIRE(type_of(device + 100) == cudaMemoryTypeUnregistered);
  REQUIRE(type_of(pinned) == cudaMemoryTypeHost);
  REQUIRE(type_of(managed) == cudaMemoryTypeManaged);
  cudaFree(device);
  cudaFree(managed);
  cudaFreeHost(pinned);
}

TEST_CASE("Registered memory is mapped at its own address until it is unregistered", "[memory]") {
  std::vector<char> memory(8192);
  void* device_address = nullptr;
  REQUIRE(cudaHostGetDevicePointer(&device_address, memory.data(), 0) == cudaErrorInvalidValue);
  REQUIRE(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterMapped) == cudaSuccess);
  REQUIRE(cudaHostRegister(memory.data() + 4096, 4096, 0) == cudaErrorHostMemoryAlreadyRegistered);
  REQUIRE(cudaHostGetDevicePointer(&device_address, memory.data() + 10, 0) == cudaSuccess);
  REQUIRE(device_address == memory.data() + 10);
  REQUIRE(cudaHostUnregister(memory.data()) == cudaSuccess);
  REQUIRE(cudaHostUnregister(memory.data()) == cudaErrorHostMemoryNotRegistered);
  cudaGetLastError();
}

TEST_CASE("cudaHostUnregister waits for work that may still use the memory", "[memory]") {
  static std::vector<char> memory(8192);
  static bool finished = false;
  REQUIRE(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterMapped) == cudaSuccess);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaLaunchHostFunc(
      stream,
      [](void*) {
        for (volatile int i = 0; i < 3'000'000; i = i + 1) continue;
        finished = true;
      },
      nullptr);
  REQUIRE(cudaHostUnregister(memory.data()) == cudaSuccess);
  REQUIRE(finished);
  cudaStreamDestroy(stream);
}

SCENARIO_PROCESS(ask_for_pinned_memory) {
  static char memory[8192];
  void* allocated = nullptr;
  const bool registers = cudaHostRegister(memory, sizeof memory, cudaHostRegisterMapped) == cudaSuccess;
  const bool portable = cudaHostAlloc(&allocated, 4096, cudaHostAllocPortable) == cudaSuccess;
  const bool mapped = cudaHostAlloc(&allocated, 4096, cudaHostAllocMapped) == cudaSuccess;
  return registers + 2 * portable + 4 * mapped;
}

TEST_CASE("What a machine is told to refuse is refused, and nothing else", "[memory]") {
  REQUIRE(run_scenario("ask_for_pinned_memory").exit_code == 1 + 2 + 4);
  REQUIRE(run_scenario("ask_for_pinned_memory", {{"CCLD_CPU_DEVICE_REFUSE", "registration"}}).exit_code == 2 + 4);
  REQUIRE(run_scenario("ask_for_pinned_memory", {{"CCLD_CPU_DEVICE_REFUSE", "portable,registration"}}).exit_code == 4);
}

TEST_CASE("Copies that cannot be right are refused", "[memory]") {
  int* device = device_array<int>(10);
  std::vector<int> host(20);
  REQUIRE(cudaMemcpy(device, host.data(), 80, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);  // too long
  REQUIRE(cudaMemcpy(host.data(), host.data() + 10, 4, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(device, nullptr, 4, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  REQUIRE(cudaMemcpy(device, host.data(), 4, static_cast<cudaMemcpyKind>(9)) == cudaErrorInvalidMemcpyDirection);
  REQUIRE(cudaMemset(host.data(), 0, 4) == cudaErrorInvalidValue);
  REQUIRE(cudaFree(device + 1) == cudaErrorInvalidValue);
  REQUIRE(cudaFree(host.data()) == cudaErrorInvalidValue);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  REQUIRE(cudaFree(device) == cudaSuccess);
  REQUIRE(cudaFree(device) == cudaErrorInvalidValue);
  cudaGetLastError();
}

SCENARIO_PROCESS(use_up_memory) {
  size_t free_bytes, total_bytes;
  void *first, *second;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  if (total_bytes != 64 << 20 || free_bytes != total_bytes) return 1;
  if (cudaMalloc(&first, 60 << 20) != cudaSuccess) return 2;
  cudaMemGetInfo(&free_bytes, &total_bytes);
  if (free_bytes != 4 << 20) return 3;
  if (cudaMalloc(&second, 8 << 20) != cudaErrorMemoryAllocation || second != nullptr) return 4;
  cudaFree(first);
  return cudaMalloc(&second, 8 << 20) == cudaSuccess ? 0 : 5;
}

SCENARIO_PROCESS(use_after_free) {
  int* memory;
  cudaMalloc(reinterpret_cast<void**>(&memory), 4096);
  *memory = 1;
  cudaFree(memory);
  return *static_cast<volatile int*>(memory);
}

SCENARIO_PROCESS(overrun) {
  char* memory;
  cudaMalloc(reinterpret_cast<void**>(&memory), 8192);
  static_cast<volatile char*>(memory)[8192] = 1;
  return 0;
}

TEST_CASE("A device has only the memory that was set", "[memory]") {
  REQUIRE(run_scenario("use_up_memory", {{"CCLD_CPU_DEVICE_MEMORY_MIB", "64"}}).exit_code == 0);
}

TEST_CASE("Use after free and overruns end the process", "[memory]") {
  REQUIRE(run_scenario("use_after_free").signal == SIGSEGV);
  REQUIRE(run_scenario("overrun").signal == SIGSEGV);
}
