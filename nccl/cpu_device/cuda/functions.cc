// What programs ask and set about kernels besides launching them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>

#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/foreign_kernels.h"
#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {
namespace {

constexpr int threads_per_multiprocessor = 2048;
constexpr int blocks_per_multiprocessor = 32;
constexpr int threads_per_block = 1024;

// cudaSuccess for kernels that can be launched, also those whose launches will be skipped.
cudaError_t check_kernel(const void* function) {
  return find_kernel(function) != nullptr ? cudaSuccess : answer_foreign_kernel(function);
}

size_t static_shared_bytes(const void* function) {
  const KernelInfo* kernel = find_kernel(function);
  return kernel != nullptr ? kernel->static_shared_bytes : 0;
}

cudaError_t resident_blocks(int* blocks, const void* function, int block_threads, size_t dynamic_shared_bytes) {
  const cudaError_t error = check_kernel(function);
  if (error != cudaSuccess) return error;
  if (blocks == nullptr || block_threads < 1 || block_threads > threads_per_block) return cudaErrorInvalidValue;
  *blocks = std::min(blocks_per_multiprocessor, threads_per_multiprocessor / block_threads);
  int shared_bytes = 0;
  device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, current_device(), &shared_bytes);
  const size_t needed_bytes = static_shared_bytes(function) + dynamic_shared_bytes;
  if (needed_bytes > 0) *blocks = std::min(*blocks, static_cast<int>(static_cast<size_t>(shared_bytes) / needed_bytes));
  return cudaSuccess;
}

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const cudaError_t error = check_kernel(function);
  if (error != cudaSuccess) return remember(error);
  memset(attributes, 0, sizeof *attributes);
  attributes->sharedSizeBytes = static_shared_bytes(function);
  attributes->maxThreadsPerBlock = threads_per_block;
  attributes->numRegs = 32;
  attributes->binaryVersion = attributes->ptxVersion = compute_capability_major * 10 + compute_capability_minor;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int) {
  return remember(check_kernel(function));
}

CCLD_CUDA_API cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return remember(check_kernel(function));
}

// A driver function handle is the host function's address.
CCLD_CUDA_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* handle, const void* function) {
  const cudaError_t error = check_kernel(function);
  if (error != cudaSuccess) return remember(error);
  *handle = reinterpret_cast<cudaFunction_t>(const_cast<void*>(function));
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                                 int block_threads,
                                                                                 size_t dynamic_shared_bytes,
                                                                                 unsigned) {
  return remember(resident_blocks(blocks, function, block_threads, dynamic_shared_bytes));
}

CCLD_CUDA_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                        int block_threads,
                                                                        size_t dynamic_shared_bytes) {
  return remember(resident_blocks(blocks, function, block_threads, dynamic_shared_bytes));
}
