// Kernels that exist as GPU code only: those of programs and libraries compiled by nvcc. The CPU device cannot run
// them; it knows their names, and answers launches as CCLD_CPU_DEVICE_FOREIGN_KERNELS wants.
//
// Errors
//   Each kernel is named once on stderr, when it is first launched or asked about.
// Threads
//   Safe from any thread, also before main().
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace ccld::cpu_device {

// `function` is how the program calls the kernel, `name` its mangled name.
void add_foreign_kernel(const void* function, const char* name);

// The mangled name; empty if nobody registered the function.
std::string foreign_kernel_name(const void* function);

// For functions that were not built for the CPU device. cudaSuccess: the launch is to be skipped. Otherwise the error
// that a GPU answers with when a program has no code for it, or, for what is no kernel at all,
// cudaErrorInvalidDeviceFunction.
cudaError_t answer_foreign_kernel(const void* function);

}  // namespace ccld::cpu_device
