// What programs compiled with nvcc call before main() to hand over their GPU code. The CPU device cannot run it, but
// such programs (PyTorch, nccl-tests) must load, and a launch of their kernels must be able to name the kernel.
#include <mutex>
#include <string>
#include <unordered_map>

#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/launch.h"

namespace ccld::cpu_device {
namespace {

struct GpuKernels {
  std::mutex mutex;
  std::unordered_map<const void*, std::string> names;
};

GpuKernels& gpu_kernels() {
  static auto* const instance = new GpuKernels;
  return *instance;
}

// The argument of a <<<...>>> launch, between its two halves.
struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  void* stream;
};

thread_local CallConfiguration pushed{};
void* fat_binary_handle = nullptr;

}  // namespace

const char* gpu_kernel_name(const void* function) {
  std::lock_guard<std::mutex> lock(gpu_kernels().mutex);
  const auto found = gpu_kernels().names.find(function);
  return found == gpu_kernels().names.end() ? nullptr : found->second.c_str();
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API void** __cudaRegisterFatBinary(void*) { return &fat_binary_handle; }

CCLD_CUDA_API void __cudaRegisterFatBinaryEnd(void**) {}

CCLD_CUDA_API void __cudaUnregisterFatBinary(void**) {}

CCLD_CUDA_API void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name, int, void*, void*,
                                          void*, void*, int*) {
  std::lock_guard<std::mutex> lock(gpu_kernels().mutex);
  gpu_kernels().names[host_function] = name;
}

CCLD_CUDA_API void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

CCLD_CUDA_API char __cudaInitModule(void**) { return 1; }

CCLD_CUDA_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  pushed = {grid, block, shared_bytes, stream};
  return 0;
}

CCLD_CUDA_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared_bytes = pushed.shared_bytes;
  *static_cast<void**>(stream) = pushed.stream;
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
