#include "nccl/cpu_device/cuda/launch.h"

#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/events.h"
#include "nccl/cpu_device/cuda/foreign_kernels.h"
#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {
namespace {

constexpr size_t argument_alignment = 64;

// Missing bytes at the end are zero: NCCL passes fewer argument bytes than its kernels declare.
bool copy_extra(void** extra, char* target, size_t bytes) {
  const void* buffer = nullptr;
  size_t length = 0;
  for (void** entry = extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
    if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = entry[1];
    } else if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      length = *static_cast<size_t*>(entry[1]);
    } else {
      return false;
    }
  }
  if (buffer == nullptr || length > bytes) return false;
  memcpy(target, buffer, length);
  return true;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, size_t dynamic_shared_bytes, cudaStream_t handle,
                   LaunchArguments arguments) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  Operation operation;
  const cudaError_t error = make_launch(function, grid, block, dynamic_shared_bytes, arguments, &operation);
  return error == cudaSuccess ? submit(stream, std::move(operation)) : error;
}

// Attributes shape how a GPU schedules; the CPU device's blocks are all resident anyway. Only what a program can
// observe is done.
cudaError_t apply_attributes(const CUlaunchAttribute* attributes, unsigned count, cudaStream_t handle) {
  for (unsigned i = 0; i < count; ++i) {
    switch (static_cast<int>(attributes[i].id)) {
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING: break;
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT: {
        // "All blocks have begun" is when the stream reaches the kernel.
        const StreamPtr stream = find_stream(handle);
        const EventPtr event = find_event(attributes[i].value.launchCompletionEvent.event);
        if (stream == nullptr || event == nullptr) return cudaErrorInvalidResourceHandle;
        const cudaError_t error = record_event(stream, event, 0);
        if (error != cudaSuccess) return error;
        break;
      }
      default:
        report("launch attribute %d is not supported by the CPU device", static_cast<int>(attributes[i].id));
        return cudaErrorNotSupported;
    }
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t make_launch(const void* function, dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                        LaunchArguments arguments, Operation* operation) {
  const KernelInfo* kernel = find_kernel(function);
  if (kernel == nullptr) {
    const cudaError_t answer = answer_foreign_kernel(function);
    if (answer != cudaSuccess) return answer;
  }
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0) {
    return cudaErrorInvalidConfiguration;
  }
  operation->type = cudaGraphNodeTypeKernel;
  if (kernel == nullptr) {
    operation->work = [] {};  // skipped, in its turn
    return cudaSuccess;
  }
  const size_t bytes = (kernel->argument_bytes + argument_alignment) & ~(argument_alignment - 1);
  std::shared_ptr<char> copy(static_cast<char*>(aligned_alloc(argument_alignment, bytes)), free);
  if (copy == nullptr) return cudaErrorMemoryAllocation;
  memset(copy.get(), 0, bytes);
  if (arguments.extra != nullptr) {
    if (!copy_extra(arguments.extra, copy.get(), kernel->argument_bytes)) return cudaErrorInvalidValue;
  } else {
    for (size_t i = 0; i < kernel->argument_count; ++i) {
      memcpy(copy.get() + kernel->argument_offsets[i], arguments.pointers[i], kernel->argument_sizes[i]);
    }
  }
  const LaunchShape shape{{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}};
  operation->work = [=] { run_grid(function, *kernel, copy.get(), shape, dynamic_shared_bytes); };
  return cudaSuccess;
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                           size_t dynamic_shared_bytes, cudaStream_t stream) {
  return remember(launch(function, grid, block, dynamic_shared_bytes, stream, {arguments, nullptr}));
}

CCLD_CUDA_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                                      size_t dynamic_shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, dynamic_shared_bytes, stream);
}

CCLD_CUDA_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                              void** arguments) {
  // The runtime's attribute type is the driver's under another name.
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  const cudaError_t error =
      apply_attributes(reinterpret_cast<const CUlaunchAttribute*>(config->attrs), config->numAttrs, config->stream);
  if (error != cudaSuccess) return remember(error);
  return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                          config->stream);
}

CCLD_CUDA_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                      unsigned block_x, unsigned block_y, unsigned block_z,
                                      unsigned dynamic_shared_bytes, CUstream stream, void** arguments, void** extra) {
  return driver_error(launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_shared_bytes,
                             stream, {arguments, extra}));
}

CCLD_CUDA_API CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                                        void** extra) {
  const cudaError_t error = apply_attributes(config->attrs, config->numAttrs, config->hStream);
  if (error != cudaSuccess) return driver_error(error);
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
                        config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream, arguments,
                        extra);
}
