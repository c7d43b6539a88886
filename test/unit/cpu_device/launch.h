// Kernels for tests: a lambda runs as a grid, without headers of CUDA device code.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

using KernelBody = std::function<void()>;

inline const void* body_kernel() {
  static const size_t sizes[] = {sizeof(void*)}, offsets[] = {0};
  static const bool registered = [] {
    register_kernel(sizes, {[](const void*, const void* arguments) {
                              const KernelBody* body;
                              __builtin_memcpy(&body, arguments, sizeof body);
                              (*body)();
                            },
                            sizeof(void*), 0, "body", 1, sizes, offsets});
    return true;
  }();
  static_cast<void>(registered);
  return sizes;
}

// Runs and waits.
inline void run(Dim3 grid, Dim3 block, const KernelBody& body, size_t dynamic_shared_bytes = 0) {
  const KernelBody* argument = &body;
  run_grid(body_kernel(), *find_kernel(body_kernel()), &argument, {grid, block}, dynamic_shared_bytes);
}

inline void run(unsigned blocks, unsigned threads, const KernelBody& body) {
  run({blocks, 1, 1}, {threads, 1, 1}, body);
}

// Submits to a stream; `body` must live until it ran.
inline cudaError_t launch(cudaStream_t stream, unsigned blocks, unsigned threads, const KernelBody* body) {
  void* arguments[] = {&body};
  return cudaLaunchKernel(body_kernel(), dim3(blocks), dim3(threads), arguments, 0, stream);
}

inline unsigned thread_index() { return current_fiber->linear_index; }

}  // namespace ccld::cpu_device
