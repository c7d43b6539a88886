// The driver API as far as NCCL calls it. NCCL finds these functions with cudaGetDriverEntryPointByVersion().
#include <cuda.h>

#include <cstring>
#include <iterator>

#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/memory.h"
#include "nccl/cpu_device/cuda/streams.h"
#include "nccl/cpu_device/cuda/vmm.h"

namespace ccld::cpu_device {
namespace {

// A context handle is a number that names the device.
constexpr uintptr_t first_context = 0x1000;

CUcontext context_of(int device) { return reinterpret_cast<CUcontext>(first_context + device); }

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return visible_device_count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CCLD_CUDA_API CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (physical_index(ordinal) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuDeviceGetCount(int* count) {
  *count = visible_device_count();
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (physical_index(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  return device_attribute(attribute, device, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CCLD_CUDA_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (physical_index(device) < 0 || length < 1) return CUDA_ERROR_INVALID_VALUE;
  strncpy(name, "ccld CPU device", length - 1);
  name[length - 1] = '\0';
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = context_of(current_device());
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) return CUDA_SUCCESS;
  const int device = static_cast<int>(reinterpret_cast<uintptr_t>(context) - first_context);
  return set_current_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CCLD_CUDA_API CUresult cuCtxGetDevice(CUdevice* device) {
  *device = current_device();
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (physical_index(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }

CCLD_CUDA_API CUresult cuMemGetAddressRange(CUdeviceptr* begin, size_t* bytes, CUdeviceptr address) {
  const auto allocation = find_allocation(reinterpret_cast<void*>(address));
  if (!allocation.has_value()) return CUDA_ERROR_NOT_FOUND;
  if (begin != nullptr) *begin = reinterpret_cast<CUdeviceptr>(allocation->begin);
  if (bytes != nullptr) *bytes = allocation->bytes;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr address) {
  const auto allocation = find_allocation(reinterpret_cast<void*>(address));
  if (!allocation.has_value()) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = allocation->on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(value) = allocation->device; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<int*>(value) = allocation->kind == MemoryKind::device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(value) =
          allocation->kind == MemoryKind::mapped ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(value) = reinterpret_cast<CUdeviceptr>(allocation->begin);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<size_t*>(value) = allocation->bytes; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
}

// A value that the stream stores in its turn, as a kernel's store: the probe marks begin and end of launches with it.
CCLD_CUDA_API CUresult cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || address == 0 || address % sizeof(value) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto* word = reinterpret_cast<cuuint32_t*>(address);
  const cudaError_t error =
      submit(stream, {cudaGraphNodeTypeMemset, [=] { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }, nullptr});
  return error == cudaSuccess ? CUDA_SUCCESS : static_cast<CUresult>(error);
}

namespace {

struct EntryPoint {
  const char* name;
  void* function;
};

#define CCLD_ENTRY_POINT(name) \
  { #name, reinterpret_cast < void*>(name) }
const EntryPoint entry_points[] = {
    CCLD_ENTRY_POINT(cuInit),
    CCLD_ENTRY_POINT(cuDriverGetVersion),
    CCLD_ENTRY_POINT(cuDeviceGet),
    CCLD_ENTRY_POINT(cuDeviceGetCount),
    CCLD_ENTRY_POINT(cuDeviceGetAttribute),
    CCLD_ENTRY_POINT(cuDeviceGetName),
    CCLD_ENTRY_POINT(cuGetErrorString),
    CCLD_ENTRY_POINT(cuGetErrorName),
    CCLD_ENTRY_POINT(cuCtxGetCurrent),
    CCLD_ENTRY_POINT(cuCtxSetCurrent),
    CCLD_ENTRY_POINT(cuCtxGetDevice),
    CCLD_ENTRY_POINT(cuDevicePrimaryCtxRetain),
    {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(cuDevicePrimaryCtxRelease_v2)},
    {"cuMemGetAddressRange", reinterpret_cast<void*>(cuMemGetAddressRange)},
    CCLD_ENTRY_POINT(cuPointerGetAttribute),
    CCLD_ENTRY_POINT(cuLaunchKernel),
    CCLD_ENTRY_POINT(cuLaunchKernelEx),
    {"cuStreamWriteValue32", reinterpret_cast<void*>(cuStreamWriteValue32_v2)},
    CCLD_ENTRY_POINT(cuMemCreate),
    CCLD_ENTRY_POINT(cuMemRelease),
    CCLD_ENTRY_POINT(cuMemAddressReserve),
    CCLD_ENTRY_POINT(cuMemAddressFree),
    CCLD_ENTRY_POINT(cuMemMap),
    CCLD_ENTRY_POINT(cuMemUnmap),
    CCLD_ENTRY_POINT(cuMemSetAccess),
    CCLD_ENTRY_POINT(cuMemGetAllocationGranularity),
    CCLD_ENTRY_POINT(cuMemExportToShareableHandle),
    CCLD_ENTRY_POINT(cuMemImportFromShareableHandle),
    CCLD_ENTRY_POINT(cuMemRetainAllocationHandle),
    CCLD_ENTRY_POINT(cuMemGetAllocationPropertiesFromHandle),
    CCLD_ENTRY_POINT(cuMulticastGetGranularity),
    CCLD_ENTRY_POINT(cuMulticastCreate),
    CCLD_ENTRY_POINT(cuMulticastAddDevice),
    {"cuMulticastBindMem", reinterpret_cast<void*>(cuMulticastBindMem)},
    {"cuMulticastBindAddr", reinterpret_cast<void*>(cuMulticastBindAddr)},
    CCLD_ENTRY_POINT(cuMulticastUnbind),
};

}  // namespace

CCLD_CUDA_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                           unsigned long long,
                                                           cudaDriverEntryPointQueryResult* result) {
  *function = nullptr;
  for (const EntryPoint& entry : entry_points) {
    if (strcmp(entry.name, name) == 0) *function = entry.function;
  }
  // "Not found" is how callers learn that a driver lacks a feature; they go on without it.
  if (result != nullptr) {
    *result = *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                                  cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDA_VERSION, flags, result);
}
