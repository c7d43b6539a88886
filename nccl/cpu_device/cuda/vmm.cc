#include "nccl/cpu_device/cuda/vmm.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/memory.h"

namespace ccld::cpu_device {
namespace {

constexpr size_t granularity_bytes = 2 << 20;

// One physical allocation. Mappings and handles share it.
class PhysicalMemory {
 public:
  // Owns the file. `counted`: against its device's memory; imports are counted by their creator.
  PhysicalMemory(int file, size_t bytes, const CUmemAllocationProp& properties, bool counted)
      : file(file), bytes(bytes), properties(properties), counted_(counted) {}
  PhysicalMemory(const PhysicalMemory&) = delete;
  ~PhysicalMemory() {
    if (counted_) device_heap(properties.location.id).release_elsewhere(bytes);
    if (file >= 0) close(file);
  }

  const int file;
  const size_t bytes;
  const CUmemAllocationProp properties;

 private:
  const bool counted_;
};
using PhysicalPtr = std::shared_ptr<PhysicalMemory>;

struct Mapping {
  size_t bytes;
  PhysicalPtr memory;
};

struct State {
  std::mutex mutex;
  // A handle may be retained several times; each reference is released on its own.
  std::map<CUmemGenericAllocationHandle, std::pair<PhysicalPtr, unsigned>> handles;
  std::map<const PhysicalMemory*, CUmemGenericAllocationHandle> handle_of;
  std::map<CUdeviceptr, size_t> reservations;
  std::map<CUdeviceptr, Mapping> mappings;
  CUmemGenericAllocationHandle next_handle = 1;
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

// With the lock held.
CUmemGenericAllocationHandle add_reference(const PhysicalPtr& memory) {
  auto [known, is_new] = state().handle_of.emplace(memory.get(), state().next_handle);
  if (is_new) ++state().next_handle;
  auto& entry = state().handles[known->second];
  entry.first = memory;
  ++entry.second;
  return known->second;
}

PhysicalPtr find_handle(CUmemGenericAllocationHandle handle) {
  const auto found = state().handles.find(handle);
  return found == state().handles.end() ? nullptr : found->second.first;
}

bool is_reserved(CUdeviceptr begin, size_t bytes) {
  auto next = state().reservations.upper_bound(begin);
  if (next == state().reservations.begin()) return false;
  const auto& [start, length] = *std::prev(next);
  return begin + bytes <= start + length;
}

bool is_device_location(const CUmemAllocationProp& properties) {
  return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

// The file's name carries where the memory is, for whoever imports it: only the descriptor travels.
constexpr const char* name_format = "ccld-vmm-%c%d";

int create_file(const CUmemAllocationProp& properties) {
  char name[32];
  if (is_device_location(properties)) {
    snprintf(name, sizeof name, name_format, 'd', physical_index(properties.location.id));
  } else {
    snprintf(name, sizeof name, name_format, 'h', 0);
  }
  return memfd_create(name, MFD_CLOEXEC);
}

bool read_location(int file, CUmemAllocationProp* properties) {
  char path[64], name[128];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length <= 0) return false;
  name[length] = '\0';
  char where;
  int index;
  if (sscanf(name, "/memfd:ccld-vmm-%c%d", &where, &index) != 2) return false;
  properties->location.type = where == 'd' ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  properties->location.id = 0;
  for (int i = 0; where == 'd' && i < visible_device_count(); ++i) {
    if (physical_index(i) == index) properties->location.id = i;
  }
  return true;
}

bool is_aligned(uint64_t value) { return value % granularity_bytes == 0; }

}  // namespace
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
  const bool on_device = is_device_location(*properties);
  if (on_device) {
    if (physical_index(properties->location.id) < 0) return CUDA_ERROR_INVALID_DEVICE;
    if (!device_heap(properties->location.id).reserve_elsewhere(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto memory = std::make_shared<PhysicalMemory>(create_file(*properties), bytes, *properties, on_device);
  if (memory->file < 0 || ftruncate(memory->file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  std::lock_guard<std::mutex> lock(state().mutex);
  *handle = add_reference(memory);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  PhysicalPtr last;  // freed after the lock
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().handles.find(handle);
  if (found == state().handles.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.second == 0) {
    last = found->second.first;
    state().handle_of.erase(last.get());
    state().handles.erase(found);
  }
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto at = reinterpret_cast<CUdeviceptr>(address);
  auto next = state().mappings.upper_bound(at);
  if (next == state().mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto& [begin, mapping] = *std::prev(next);
  if (at >= begin + mapping.bytes) return CUDA_ERROR_INVALID_VALUE;
  *handle = add_reference(mapping.memory);
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
  std::lock_guard<std::mutex> lock(state().mutex);
  const PhysicalPtr memory = find_handle(handle);
  if (memory == nullptr || flags != 0 || !is_reserved(address, bytes) || offset + bytes > memory->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Inaccessible until cuMemSetAccess(), as on a GPU.
  void* const begin = reinterpret_cast<void*>(address);
  if (mmap(begin, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->file, static_cast<off_t>(offset)) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  state().mappings[address] = {bytes, memory};
  const bool on_device = is_device_location(memory->properties);
  add_allocation({static_cast<char*>(begin), bytes, MemoryKind::mapped,
                  on_device ? memory->properties.location.id : current_device(), !on_device});
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
  if (mprotect(reinterpret_cast<void*>(address), bytes, protection) != 0) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  PhysicalPtr last;
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().mappings.find(address);
  if (found == state().mappings.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  void* const begin = reinterpret_cast<void*>(address);
  mmap(begin, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  remove_allocation(begin, MemoryKind::mapped);
  last = found->second.memory;
  state().mappings.erase(found);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                                    CUmemAllocationHandleType type, unsigned long long) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  std::lock_guard<std::mutex> lock(state().mutex);
  const PhysicalPtr memory = find_handle(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int file = fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memcpy(shareable, &file, sizeof file);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                                      CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int file = fcntl(static_cast<int>(reinterpret_cast<uintptr_t>(shareable)), F_DUPFD_CLOEXEC, 0);
  struct stat info {};
  if (file < 0 || fstat(file, &info) != 0) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = type;
  if (!read_location(file, &properties)) {
    close(file);
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto memory = std::make_shared<PhysicalMemory>(file, static_cast<size_t>(info.st_size), properties, false);
  std::lock_guard<std::mutex> lock(state().mutex);
  *handle = add_reference(memory);
  return CUDA_SUCCESS;
}

CCLD_CUDA_API CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                              CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const PhysicalPtr memory = find_handle(handle);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = memory->properties;
  return CUDA_SUCCESS;
}
