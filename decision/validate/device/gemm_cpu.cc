// The same for the CPU device, where a block is a thread of the host: one block, one CUDA thread.
#include <cuda_runtime.h>

#include "decision/validate/device/gemm.h"
#include "nccl/cpu_device/device/kernel_registration.h"

namespace ccld::decision::validate {
namespace {

void gemm(const float* a, const float* b, float* c, int n) {
  for (int row = 0; row < n; ++row)
    for (int column = 0; column < n; column += gemm_tile) {
      float sum[gemm_tile] = {};
      for (int k = 0; k < n; ++k)
        for (int j = 0; j < gemm_tile; ++j) sum[j] += a[row * n + k] * b[k * n + column + j];
      for (int j = 0; j < gemm_tile; ++j) c[row * n + column + j] = sum[j];
    }
}

}  // namespace

cudaError_t launch_gemm(const float* a, const float* b, float* c, int n, cudaStream_t stream) {
  static void* const function = cpu_device::kernel(&gemm, 0, "gemm");
  void* arguments[] = {&a, &b, &c, &n};
  return cudaLaunchKernel(function, dim3(1), dim3(1), arguments, 0, stream);
}

}  // namespace ccld::decision::validate
