// What the CPU device offers a workload for device faults, for a GPU: kernels that take a known time, and the lines of
// the control file (nccl/cpu_device/README.md) that a program can plant on its own GPU.
//
//   clock_slowdown F    compute takes F times as long
//   freeze_device       before the next compute, kernels take all places of the GPU that this process can have, for
//   ever:
//                       what is launched after them never begins
//
// Linked into the workload for GPUs, which finds the function by its name. Threads: any one at a time.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "nccl/cpu_device/control/fault_plan.h"

namespace {

__device__ __forceinline__ uint64_t now_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void busy_for(uint64_t ns) {
  const uint64_t begin = now_ns();
  while (now_ns() - begin < ns) __nanosleep(1000);
}

__global__ void busy_for_ever(const volatile int* keep_on) {
  while (*keep_on != 0) __nanosleep(100000);
}

ccld::cpu_device::FaultPlan planted() {
  const char* path = getenv("CCLD_CPU_DEVICE_CONTROL");
  if (path == nullptr) return {};
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return ccld::cpu_device::parse_fault_plan(text.str()).plan;
}

// All threads that the multiprocessors have room for.
cudaError_t fill_device() {
  constexpr int block_threads = 1024;
  static bool filled = false;
  if (filled) return cudaSuccess;
  int device = 0, multiprocessors = 0, threads = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
  int* keep_on = nullptr;
  cudaStream_t stream = nullptr;
  if (error == cudaSuccess)
    error = cudaHostAlloc(reinterpret_cast<void**>(&keep_on), sizeof *keep_on, cudaHostAllocMapped);
  if (error == cudaSuccess) error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  *keep_on = 1;
  busy_for_ever<<<multiprocessors*(threads / block_threads), block_threads, 0, stream>>>(keep_on);
  filled = true;
  return cudaGetLastError();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int ccld_cpu_device_busy(void* stream, unsigned long long device_ns) {
  const ccld::cpu_device::FaultPlan plan = planted();
  if (plan.freeze_device) {
    const cudaError_t error = fill_device();
    if (error != cudaSuccess) return error;
  }
  const auto ns = static_cast<uint64_t>(static_cast<double>(device_ns) * plan.clock_slowdown);
  busy_for<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(ns);
  return cudaGetLastError();
}
