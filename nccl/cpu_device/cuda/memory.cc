#include "nccl/cpu_device/cuda/memory.h"

#include <sys/mman.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <shared_mutex>
#include <vector>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/control/faults.h"
#include "nccl/cpu_device/cuda/capture.h"
#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/streams.h"

namespace ccld::cpu_device {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::map<const char*, Allocation> allocations;  // by begin
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

constexpr size_t page_bytes = 4096;

size_t round_to_pages(size_t bytes) { return (bytes + page_bytes - 1) & ~(page_bytes - 1); }

cudaError_t allocate_device(void** address, size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (visible_device_count() == 0) return cudaErrorNoDevice;
  if (bytes == 0) return cudaSuccess;
  char* begin = device_heap(current_device()).allocate(bytes);
  if (begin == nullptr) return cudaErrorMemoryAllocation;
  add_allocation({begin, bytes, MemoryKind::device, current_device(), false});
  *address = begin;
  return cudaSuccess;
}

cudaError_t allocate_private(void** address, size_t bytes, MemoryKind kind) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return kind == MemoryKind::managed ? cudaErrorInvalidValue : cudaSuccess;
  void* begin =
      mmap(nullptr, round_to_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return cudaErrorMemoryAllocation;
  add_allocation({static_cast<char*>(begin), bytes, kind, current_device(), kind == MemoryKind::pinned_host});
  *address = begin;
  return cudaSuccess;
}

// Without waiting for anyone; false if there is no such allocation.
bool free_device_now(void* address) {
  if (const auto device = remove_allocation(address, MemoryKind::device)) {
    device_heap(device->device).free(device->begin, device->bytes);
    return true;
  }
  if (const auto managed = remove_allocation(address, MemoryKind::managed)) {
    munmap(managed->begin, round_to_pages(managed->bytes));
    return true;
  }
  return false;
}

bool is_pageable(const void* address) { return !find_allocation(address).has_value(); }

bool is_on_host(const void* address) {
  const auto allocation = find_allocation(address);
  return !allocation.has_value() || allocation->on_host;
}

cudaError_t copy_async(void* target, const void* source, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  cudaError_t error = check_copy(target, source, bytes, kind);
  if (error != cudaSuccess) return error;
  Operation operation{cudaGraphNodeTypeMemcpy, {}, nullptr};
  if (!stream->capturing && is_pageable(source) && !is_on_host(target)) {
    // CUDA stages a pageable source before it returns: the caller may change it at once.
    auto staged =
        std::make_shared<std::vector<char>>(static_cast<const char*>(source), static_cast<const char*>(source) + bytes);
    operation.work = [=] { copy_bytes(target, staged->data(), bytes); };
    return submit(stream, std::move(operation));
  }
  operation.work = [=] { copy_bytes(target, source, bytes); };
  StreamPosition position;
  error = submit(stream, std::move(operation), &position);
  // CUDA returns from a copy to pageable memory, or within the host, only once it is done.
  if (error == cudaSuccess && (is_pageable(target) || (is_on_host(source) && is_on_host(target)))) position.wait();
  return error;
}

cudaError_t copy_sync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  cudaError_t error = check_unsafe_call();
  if (error == cudaSuccess) error = check_copy(target, source, bytes, kind);
  const StreamPtr stream = find_stream(nullptr);
  if (stream == nullptr) return cudaErrorNoDevice;
  StreamPosition position;
  if (error == cudaSuccess) {
    error = submit(stream, {cudaGraphNodeTypeMemcpy, [=] { copy_bytes(target, source, bytes); }, nullptr}, &position);
  }
  if (error == cudaSuccess) position.wait();
  return error;
}

cudaError_t fill_async(void* target, int value, size_t bytes, cudaStream_t handle, StreamPosition* position) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (bytes == 0) return cudaSuccess;
  const cudaError_t error = check_device_range(target, bytes);
  if (error != cudaSuccess) return error;
  return submit(stream, {cudaGraphNodeTypeMemset, [=] { fill_bytes(target, value, bytes); }, nullptr}, position);
}

class StretchedWork {
 public:
  StretchedWork() {
    clock_.start();
    if (faults_planted.load(std::memory_order_relaxed)) clock_.account();
  }
  ~StretchedWork() { clock_.settle(); }

 private:
  SlowClock clock_;
};

}  // namespace

DeviceHeap& device_heap(int device) {
  static std::mutex mutex;
  static auto* const heaps = new std::array<std::unique_ptr<DeviceHeap>, 64>;
  std::lock_guard<std::mutex> lock(mutex);
  auto& heap = (*heaps)[device];
  if (heap == nullptr) heap = std::make_unique<DeviceHeap>(physical_index(device), settings().memory_bytes);
  return *heap;
}

std::optional<Allocation> find_allocation(const void* address) {
  std::shared_lock<std::shared_mutex> lock(registry().mutex);
  auto& allocations = registry().allocations;
  auto next = allocations.upper_bound(static_cast<const char*>(address));
  if (next == allocations.begin()) return std::nullopt;
  const Allocation& candidate = std::prev(next)->second;
  return candidate.contains(address, 1) ? std::optional<Allocation>(candidate) : std::nullopt;
}

void add_allocation(const Allocation& allocation) {
  std::unique_lock<std::shared_mutex> lock(registry().mutex);
  registry().allocations[allocation.begin] = allocation;
}

std::optional<Allocation> remove_allocation(const void* begin, MemoryKind kind) {
  std::unique_lock<std::shared_mutex> lock(registry().mutex);
  auto& allocations = registry().allocations;
  const auto found = allocations.find(static_cast<const char*>(begin));
  if (found == allocations.end() || found->second.kind != kind) return std::nullopt;
  const Allocation allocation = found->second;
  allocations.erase(found);
  return allocation;
}

cudaError_t check_device_range(const void* begin, size_t bytes) {
  if (bytes == 0) return cudaSuccess;
  const auto allocation = find_allocation(begin);
  return allocation.has_value() && allocation->contains(begin, bytes) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t check_copy(const void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  if (target == nullptr || source == nullptr) return cudaErrorInvalidValue;
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto into = find_allocation(target), from = find_allocation(source);
  if ((to_device && !into.has_value()) || (from_device && !from.has_value())) return cudaErrorInvalidValue;
  // cuMem ranges may be made of several mappings side by side, and a user may register parts of his own memory.
  const auto overruns = [bytes](const std::optional<Allocation>& allocation, const void* begin) {
    return allocation.has_value() && allocation->kind != MemoryKind::mapped &&
           allocation->kind != MemoryKind::registered_host && !allocation->contains(begin, bytes);
  };
  return overruns(into, target) || overruns(from, source) ? cudaErrorInvalidValue : cudaSuccess;
}

void copy_bytes(void* target, const void* source, size_t bytes) {
  StretchedWork stretched;
  memmove(target, source, bytes);
}

void fill_bytes(void* target, int value, size_t bytes) {
  StretchedWork stretched;
  memset(target, value, bytes);
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaMalloc(void** address, size_t bytes) {
  const cudaError_t error = check_unsafe_call();
  return remember(error != cudaSuccess ? error : allocate_device(address, bytes));
}

CCLD_CUDA_API cudaError_t cudaFree(void* address) {
  const cudaError_t error = check_unsafe_call();
  if (error != cudaSuccess) return remember(error);
  if (address == nullptr) return cudaSuccess;
  const auto allocation = find_allocation(address);
  if (!allocation.has_value() || allocation->begin != address) return remember(cudaErrorInvalidValue);
  synchronize_device(allocation->device);  // work in flight may still use it
  return remember(free_device_now(address) ? cudaSuccess : cudaErrorInvalidValue);
}

CCLD_CUDA_API cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned flags) {
  const cudaError_t error = check_unsafe_call();
  if ((flags & cudaHostAllocPortable) != 0 && settings().refuses_portable_memory) return remember(cudaErrorNotSupported);
  return remember(error != cudaSuccess ? error : allocate_private(address, bytes, MemoryKind::pinned_host));
}

CCLD_CUDA_API cudaError_t cudaMallocHost(void** address, size_t bytes) {
  return cudaHostAlloc(address, bytes, cudaHostAllocDefault);
}

CCLD_CUDA_API cudaError_t cudaMallocManaged(void** address, size_t bytes, unsigned) {
  const cudaError_t error = check_unsafe_call();
  return remember(error != cudaSuccess ? error : allocate_private(address, bytes, MemoryKind::managed));
}

CCLD_CUDA_API cudaError_t cudaFreeHost(void* address) {
  const cudaError_t error = check_unsafe_call();
  if (error != cudaSuccess) return remember(error);
  if (address == nullptr) return cudaSuccess;
  const auto allocation = find_allocation(address);
  if (!allocation.has_value() || allocation->begin != address || allocation->kind != MemoryKind::pinned_host) {
    return remember(cudaErrorInvalidValue);
  }
  synchronize_device(allocation->device);
  if (!remove_allocation(address, MemoryKind::pinned_host)) return remember(cudaErrorInvalidValue);
  munmap(allocation->begin, round_to_pages(allocation->bytes));
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  if (address == nullptr || bytes == 0) return remember(cudaErrorInvalidValue);
  if (settings().refuses_registration) return remember(cudaErrorNotSupported);
  const char* last = static_cast<char*>(address) + bytes - 1;
  if (find_allocation(address).has_value() || find_allocation(last).has_value()) {
    return remember(cudaErrorHostMemoryAlreadyRegistered);
  }
  add_allocation({static_cast<char*>(address), bytes, MemoryKind::registered_host, current_device(), true});
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaHostUnregister(void* address) {
  const auto allocation = find_allocation(address);
  if (!allocation.has_value() || allocation->begin != address || allocation->kind != MemoryKind::registered_host)
    return remember(cudaErrorHostMemoryNotRegistered);
  // As a GPU's driver may: any device can be at work on it.
  for (int device = 0; device < static_cast<int>(visible_device_count()); ++device) synchronize_device(device);
  return remember(remove_allocation(address, MemoryKind::registered_host) ? cudaSuccess
                                                                          : cudaErrorHostMemoryNotRegistered);
}

CCLD_CUDA_API cudaError_t cudaHostGetDevicePointer(void** device_address, void* address, unsigned flags) {
  const auto allocation = find_allocation(address);
  if (device_address == nullptr || flags != 0 || !allocation.has_value() || !allocation->on_host) {
    return remember(cudaErrorInvalidValue);
  }
  *device_address = address;  // one address space
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaHostGetFlags(unsigned* flags, void* address) {
  const auto allocation = find_allocation(address);
  if (!allocation.has_value() || !allocation->on_host) return remember(cudaErrorInvalidValue);
  *flags = cudaHostAllocMapped | cudaHostAllocPortable;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (visible_device_count() == 0) return remember(cudaErrorNoDevice);
  DeviceHeap& heap = device_heap(current_device());
  *free_bytes = heap.free_bytes();
  *total_bytes = heap.capacity_bytes();
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  if (attributes == nullptr) return remember(cudaErrorInvalidValue);
  memset(attributes, 0, sizeof *attributes);
  const auto allocation = find_allocation(address);
  attributes->hostPointer = const_cast<void*>(address);
  attributes->type = cudaMemoryTypeUnregistered;
  if (!allocation.has_value()) return cudaSuccess;
  attributes->device = allocation->device;
  attributes->devicePointer = const_cast<void*>(address);
  if (allocation->kind == MemoryKind::managed) {
    attributes->type = cudaMemoryTypeManaged;
  } else if (allocation->on_host) {
    attributes->type = cudaMemoryTypeHost;
  } else {
    attributes->type = cudaMemoryTypeDevice;
    attributes->hostPointer = nullptr;
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
  return remember(copy_sync(target, source, bytes, kind));
}

CCLD_CUDA_API cudaError_t cudaMemcpyPeer(void* target, int, const void* source, int, size_t bytes) {
  return remember(copy_sync(target, source, bytes, cudaMemcpyDeviceToDevice));
}

CCLD_CUDA_API cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  return remember(copy_async(target, source, bytes, kind, stream));
}

CCLD_CUDA_API cudaError_t cudaMemcpyPeerAsync(void* target, int, const void* source, int, size_t bytes,
                                              cudaStream_t stream) {
  return remember(copy_async(target, source, bytes, cudaMemcpyDeviceToDevice, stream));
}

CCLD_CUDA_API cudaError_t cudaMemcpyBatchAsync(void* const* targets, const void* const* sources, const size_t* bytes,
                                               size_t count, cudaMemcpyAttributes*, size_t*, size_t,
                                               cudaStream_t stream) {
  for (size_t i = 0; i < count; ++i) {
    const cudaError_t error = copy_async(targets[i], sources[i], bytes[i], cudaMemcpyDefault, stream);
    if (error != cudaSuccess) return remember(error);
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaMemset(void* target, int value, size_t bytes) {
  cudaError_t error = check_unsafe_call();
  StreamPosition position;
  if (error == cudaSuccess) error = fill_async(target, value, bytes, nullptr, &position);
  if (error == cudaSuccess) position.wait();
  return remember(error);
}

CCLD_CUDA_API cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
  return remember(fill_async(target, value, bytes, stream, nullptr));
}

// ---- stream-ordered allocation: the memory is there at once, freeing it waits for its turn in the stream

CCLD_CUDA_API cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t handle) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (stream->capturing) {
    report("cudaMallocAsync in a stream that is being captured (a memory node) is not supported by the CPU device");
    return remember(cudaErrorNotSupported);
  }
  return remember(allocate_device(address, bytes));
}

CCLD_CUDA_API cudaError_t cudaMallocFromPoolAsync(void** address, size_t bytes, cudaMemPool_t, cudaStream_t stream) {
  return cudaMallocAsync(address, bytes, stream);
}

CCLD_CUDA_API cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
  const StreamPtr stream = find_stream(handle);
  if (stream == nullptr) return remember(cudaErrorInvalidResourceHandle);
  if (address == nullptr) return cudaSuccess;
  const auto allocation = find_allocation(address);
  if (!allocation.has_value() || allocation->kind != MemoryKind::device || allocation->begin != address) {
    return remember(cudaErrorInvalidValue);
  }
  if (stream->capturing) {
    report("cudaFreeAsync in a stream that is being captured (a memory node) is not supported by the CPU device");
    return remember(cudaErrorNotSupported);
  }
  submit_now(stream, [=] { free_device_now(address); });
  return cudaSuccess;
}

// Pools only carry settings here; all memory comes from the device's heap.
struct CUmemPoolHandle_st {
  uint64_t release_threshold = 0;
};

namespace {

cudaMemPool_t default_pool(int device) {
  static auto* const pools = new std::array<CUmemPoolHandle_st, 64>;
  return reinterpret_cast<cudaMemPool_t>(&(*pools)[device]);
}

}  // namespace

CCLD_CUDA_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
  *pool = reinterpret_cast<cudaMemPool_t>(new CUmemPoolHandle_st);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  delete reinterpret_cast<CUmemPoolHandle_st*>(pool);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    reinterpret_cast<CUmemPoolHandle_st*>(pool)->release_threshold = *static_cast<uint64_t*>(value);
  }
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

CCLD_CUDA_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (physical_index(device) < 0) return remember(cudaErrorInvalidDevice);
  *pool = default_pool(device);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}
