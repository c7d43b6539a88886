#include "nccl/cpu_device/cuda/errors.h"

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/cuda/unsupported.h"

namespace ccld::cpu_device {
namespace {

static_assert(unsupported_runtime_error == cudaErrorNotSupported);
static_assert(unsupported_driver_error == CUDA_ERROR_NOT_SUPPORTED);

thread_local cudaError_t last_error = cudaSuccess;

const char* runtime_error_name(int value) {
  switch (value) {
#define CCLD_RUNTIME_ERROR(number, name) \
  case number:                           \
    return name;
#define CCLD_DRIVER_ERROR(number, name)
#include "error_names.inc"
#undef CCLD_RUNTIME_ERROR
#undef CCLD_DRIVER_ERROR
    default: return "unrecognized error code";
  }
}

const char* driver_error_name(int value) {
  switch (value) {
#define CCLD_RUNTIME_ERROR(number, name)
#define CCLD_DRIVER_ERROR(number, name) \
  case number:                          \
    return name;
#include "error_names.inc"
#undef CCLD_RUNTIME_ERROR
#undef CCLD_DRIVER_ERROR
    default: return nullptr;
  }
}

}  // namespace

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

CUresult driver_error(cudaError_t error) {
  if (error == cudaSuccess) return CUDA_SUCCESS;
  // The runtime's numbers are the driver's, except for a few that only the runtime has.
  return driver_error_name(error) != nullptr ? static_cast<CUresult>(error) : CUDA_ERROR_UNKNOWN;
}

int answer_unsupported(const char* function, bool* reported, int error) {
  if (!__atomic_exchange_n(reported, true, __ATOMIC_RELAXED)) {
    report("%s is not supported by the CPU device", function);
  }
  last_error = cudaErrorNotSupported;
  return error;
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

CCLD_CUDA_API cudaError_t cudaPeekAtLastError() { return last_error; }

CCLD_CUDA_API const char* cudaGetErrorName(cudaError_t error) { return runtime_error_name(error); }

// The name says as much as NVIDIA's sentence would.
CCLD_CUDA_API const char* cudaGetErrorString(cudaError_t error) { return runtime_error_name(error); }

CCLD_CUDA_API CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = driver_error_name(error);
  return *name != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CCLD_CUDA_API CUresult cuGetErrorString(CUresult error, const char** text) { return cuGetErrorName(error, text); }
