// Multicast objects (cuMulticast...): handles of the virtual memory management that stand for memory of several GPUs.
#include <cuda.h>

#include <memory>

#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/multicast_object.h"
#include "nccl/cpu_device/cuda/physical_memory.h"
#include "nccl/cpu_device/cuda/vmm.h"

namespace ccld::cpu_device {
namespace {

CUresult result_of(MulticastError error) {
  switch (error) {
    case MulticastError::none: return CUDA_SUCCESS;
    case MulticastError::not_ready: return CUDA_ERROR_NOT_READY;
    case MulticastError::exhausted: return CUDA_ERROR_OUT_OF_MEMORY;
    case MulticastError::invalid: break;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// nullptr if the handle stands for no multicast object.
PhysicalPtr find_multicast(CUmemGenericAllocationHandle handle) {
  PhysicalPtr found = find_physical(handle);
  return found != nullptr && found->multicast != nullptr ? found : nullptr;
}

CUresult bind(CUmemGenericAllocationHandle handle, size_t offset, const PhysicalPtr& memory, size_t memory_offset,
              size_t bytes, unsigned long long flags) {
  const PhysicalPtr object = find_multicast(handle);
  if (object == nullptr || memory == nullptr || memory->multicast != nullptr || !memory->is_on_device() || flags != 0 ||
      memory_offset + bytes > memory->bytes || !is_aligned(offset) || !is_aligned(memory_offset) ||
      !is_aligned(bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return result_of(object->multicast->bind(physical_index(memory->properties.location.id), offset, memory->file,
                                           memory_offset, bytes, memory));
}

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp*,
                                                 CUmulticastGranularity_flags) {
  *granularity = granularity_bytes;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMulticastCreate(CUmemGenericAllocationHandle* handle,
                                         const CUmulticastObjectProp* properties) {
  if (!settings().nvswitch) return CUDA_ERROR_NOT_SUPPORTED;
  if (properties->size == 0 || !is_aligned(properties->size) || properties->flags != 0 || properties->numDevices == 0 ||
      properties->numDevices > static_cast<unsigned>(physical_device_count())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((properties->handleTypes & ~static_cast<unsigned long long>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto object = MulticastObject::create(properties->numDevices, properties->size);
  if (object == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = add_reference(std::make_shared<PhysicalMemory>(std::move(object)));
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device) {
  const PhysicalPtr object = find_multicast(handle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (physical_index(device) < 0) return CUDA_ERROR_INVALID_DEVICE;
  return result_of(object->multicast->add_device(physical_index(device)));
}

CCLD_CUDA_API CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
                                          CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                                          unsigned long long flags) {
  return bind(handle, offset, find_physical(memory), memory_offset, bytes, flags);
}

CCLD_CUDA_API CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset, CUdeviceptr address,
                                           size_t bytes, unsigned long long flags) {
  size_t memory_offset = 0;
  const PhysicalPtr memory = find_mapped(address, bytes, &memory_offset);
  return bind(handle, offset, memory, memory_offset, bytes, flags);
}

CCLD_CUDA_API CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                                         size_t bytes) {
  const PhysicalPtr object = find_multicast(handle);
  if (object == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return result_of(object->multicast->unbind(physical_index(device), offset, bytes));
}
