#include "nccl/cpu_device/cuda/vmm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/memory.h"
#include "nccl/cpu_device/cuda/memory_files.h"
#include "nccl/cpu_device/engine/multicast.h"

namespace ccld::cpu_device {
namespace {

struct Mapping {
  size_t bytes;
  size_t offset;  // in the memory
  PhysicalPtr memory;
};

struct State {
  std::mutex mutex;
  std::map<CUdeviceptr, size_t> reservations;
  std::map<CUdeviceptr, Mapping> mappings;
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

bool is_reserved(CUdeviceptr begin, size_t bytes) {
  auto next = state().reservations.upper_bound(begin);
  if (next == state().reservations.begin()) return false;
  const auto& [start, length] = *std::prev(next);
  return begin + bytes <= start + length;
}

// The mapping that holds all of the range; nullptr if there is none. With the lock held.
const Mapping* find_mapping(CUdeviceptr begin, size_t bytes, CUdeviceptr* mapped_at) {
  auto next = state().mappings.upper_bound(begin);
  if (next == state().mappings.begin()) return nullptr;
  const auto& [at, mapping] = *std::prev(next);
  if (begin + bytes > at + mapping.bytes) return nullptr;
  *mapped_at = at;
  return &mapping;
}

}  // namespace

PhysicalPtr find_mapped(CUdeviceptr address, size_t bytes, size_t* offset) {
  std::lock_guard<std::mutex> lock(state().mutex);
  CUdeviceptr mapped_at;
  const Mapping* mapping = find_mapping(address, bytes, &mapped_at);
  if (mapping == nullptr) return nullptr;
  *offset = mapping->offset + (address - mapped_at);
  return mapping->memory;
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                                     CUmemAllocationGranularity_flags) {
  *granularity = granularity_bytes;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                                   const CUmemAllocationProp* properties, unsigned long long flags) {
  if (bytes == 0 || !is_aligned(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((properties->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device) {
    if (physical_index(properties->location.id) < 0) return CUDA_ERROR_INVALID_DEVICE;
    if (!device_heap(properties->location.id).reserve_elsewhere(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto memory = std::make_shared<PhysicalMemory>(create_memory_file(*properties, bytes), bytes, *properties, on_device);
  if (memory->file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = add_reference(memory);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return release_reference(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CCLD_CUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  size_t offset;
  const PhysicalPtr memory = find_mapped(reinterpret_cast<CUdeviceptr>(address), 1, &offset);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = add_reference(memory);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                                           unsigned long long flags) {
  if (bytes == 0 || !is_aligned(bytes) || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (alignment < granularity_bytes) alignment = granularity_bytes;
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  void* mapped = mmap(nullptr, bytes + alignment, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto first = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t begin = (first + alignment - 1) & ~(alignment - 1);
  if (begin > first) munmap(mapped, begin - first);
  if (begin < first + alignment) munmap(reinterpret_cast<void*>(begin + bytes), first + alignment - begin);
  std::lock_guard<std::mutex> lock(state().mutex);
  state().reservations[begin] = bytes;
  *address = begin;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().reservations.find(address);
  if (found == state().reservations.end() || found->second != bytes) return CUDA_ERROR_INVALID_VALUE;
  state().reservations.erase(found);
  munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                                unsigned long long flags) {
  const PhysicalPtr memory = find_physical(handle);
  std::lock_guard<std::mutex> lock(state().mutex);
  if (memory == nullptr || flags != 0 || !is_reserved(address, bytes) || offset + bytes > memory->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* const begin = reinterpret_cast<void*>(address);
  if (memory->multicast != nullptr) {
    // The reservation stays as it is, inaccessible: what is behind it is for multimem instructions only.
    add_multicast_range(address, bytes, [memory, address, offset](uint64_t at, MulticastView* view) {
      return memory->multicast->resolve(address - offset, at, view);
    });
  } else if (mmap(begin, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->file, static_cast<off_t>(offset)) ==
             MAP_FAILED) {  // inaccessible until cuMemSetAccess(), as on a GPU
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  state().mappings[address] = {bytes, offset, memory};
  const bool on_host = memory->multicast == nullptr && !memory->is_on_device();
  add_allocation({static_cast<char*>(begin), bytes, MemoryKind::mapped,
                  memory->is_on_device() ? memory->properties.location.id : current_device(), on_host});
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* descriptions,
                                      size_t count) {
  // Every pretended device and the host share one address space: the most that anyone may do holds for all.
  int protection = PROT_NONE;
  for (size_t i = 0; i < count; ++i) {
    if (descriptions[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection |= PROT_READ | PROT_WRITE;
    if (descriptions[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) protection |= PROT_READ;
  }
  std::lock_guard<std::mutex> lock(state().mutex);
  if (!is_reserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr mapped_at;
  const Mapping* mapping = find_mapping(address, bytes, &mapped_at);
  if (mapping != nullptr && mapping->memory->multicast != nullptr) return CUDA_SUCCESS;
  if (mprotect(reinterpret_cast<void*>(address), bytes, protection) != 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  PhysicalPtr last;
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().mappings.find(address);
  if (found == state().mappings.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  void* const begin = reinterpret_cast<void*>(address);
  if (found->second.memory->multicast != nullptr) remove_multicast_range(address);
  mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  remove_allocation(begin, MemoryKind::mapped);
  last = found->second.memory;
  state().mappings.erase(found);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type, unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const PhysicalPtr memory = find_physical(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int file = fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(shareable, &file, sizeof file);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                      CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int theirs = static_cast<int>(reinterpret_cast<uintptr_t>(shareable));
  if (auto multicast = MulticastObject::open(theirs)) {
    *handle = add_reference(std::make_shared<PhysicalMemory>(std::move(multicast)));
    return CUDA_SUCCESS;
  }
  const int file = fcntl(theirs, F_DUPFD_CLOEXEC, 0);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = type;
  if (!read_memory_location(file, &properties)) {
    close(file);
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = add_reference(std::make_shared<PhysicalMemory>(file, static_cast<size_t>(info.st_size), properties, false));
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                              CUmemGenericAllocationHandle handle) {
  const PhysicalPtr memory = find_physical(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = memory->properties;
  return CUDA_SUCCESS;
}
