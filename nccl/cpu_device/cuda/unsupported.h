// What the generated functions of unsupported.cc are made of.
//
// A CUDA function that the CPU device lacks must never be a silent success or a crash at an unresolved symbol: it
// answers "not supported" and says its name once. Arguments are ignored, which the x86-64 calling convention allows.
#pragma once

namespace ccld::cpu_device {

constexpr int unsupported_runtime_error = 801;  // cudaErrorNotSupported, asserted in errors.cc
constexpr int unsupported_driver_error = 801;   // CUDA_ERROR_NOT_SUPPORTED

// Says once per function that it is missing. `reported` belongs to the function.
int answer_unsupported(const char* function, bool* reported, int error);

}  // namespace ccld::cpu_device

#define CCLD_UNSUPPORTED(name, error)                                                       \
  extern "C" __attribute__((weak, visibility("default"))) int name() {                      \
    static bool reported = false;                                                           \
    return ccld::cpu_device::answer_unsupported(#name, &reported, ccld::cpu_device::error); \
  }
#define CCLD_UNSUPPORTED_RUNTIME(name) CCLD_UNSUPPORTED(name, unsupported_runtime_error)
#define CCLD_UNSUPPORTED_DRIVER(name) CCLD_UNSUPPORTED(name, unsupported_driver_error)
