// What programs compiled with nvcc call before main() to hand over their GPU code. The CPU device cannot run it, but
// such programs (PyTorch, nccl-tests) must load, and a launch of their kernels must be able to name the kernel.
#include <vector>

#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/foreign_kernels.h"

namespace ccld::cpu_device {
namespace {

// The argument of a <<<...>>> launch, between its two halves.
struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};

// A stack, because the arguments of a launch may launch kernels themselves.
thread_local std::vector<CallConfiguration> pushed;
void* fat_binary_handle = nullptr;

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API void** __cudaRegisterFatBinary(void*) { return &fat_binary_handle; }

CCLD_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}

CCLD_CUDA_API void __cudaUnregisterFatBinary(void**) {}

CCLD_CUDA_API void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, void*, void*,
                                          void*, void*, int*) {
  add_foreign_kernel(host_function, name);
}

CCLD_CUDA_API char __cudaInitModule(void**) { return 1; }

CCLD_CUDA_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  pushed.push_back({grid, block, shared_bytes, stream});
  return 0;
}

CCLD_CUDA_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (pushed.empty()) return remember(cudaErrorMissingConfiguration);
  const CallConfiguration top = pushed.back();
  pushed.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<void**>(stream) = top.stream;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t __cudaGetKernel(const void** kernel, const void* function) {
  *kernel = function;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t __cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                             size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
