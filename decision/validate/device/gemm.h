// The compute check: one multiplication of two square matrices of floats. gemm.cu for GPUs, gemm_cpu.cc for the CPU
// device.
#pragma once

#include <cuda_runtime_api.h>

namespace ccld::decision::validate {

// c = a * b, each of n x n floats, row by row; n is a multiple of gemm_tile. Does not wait.
constexpr int gemm_tile = 32;
cudaError_t launch_gemm(const float* a, const float* b, float* c, int n, cudaStream_t stream);

}  // namespace ccld::decision::validate
