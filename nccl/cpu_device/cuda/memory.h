// What CUDA knows about addresses: allocations of every kind, and copies between them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <optional>

#include "nccl/cpu_device/cuda/device_heap.h"

namespace ccld::cpu_device {

enum class MemoryKind {
  device,           // cudaMalloc
  pinned_host,      // cudaHostAlloc
  registered_host,  // cudaHostRegister: the user's memory
  managed,          // cudaMallocManaged
  imported,         // cudaIpcOpenMemHandle
  mapped,           // cuMemMap
};

struct Allocation {
  char* begin;
  size_t bytes;
  MemoryKind kind;
  int device;    // visible index
  bool on_host;  // where it pretends to be

  bool contains(const void* address, size_t length) const {
    const char* first = static_cast<const char*>(address);
    return first >= begin && length <= bytes && first <= begin + (bytes - length);
  }
};

// The heap of a visible device, made at its first use.
DeviceHeap& device_heap(int device);

// The allocation that holds the address.
std::optional<Allocation> find_allocation(const void* address);
void add_allocation(const Allocation&);
// Removes the allocation that begins exactly there, if it is of this kind.
std::optional<Allocation> remove_allocation(const void* begin, MemoryKind kind);

// The range lies in memory that device work may touch.
cudaError_t check_device_range(const void* begin, size_t bytes);
// The ranges exist as far as they belong to known allocations, and fit the kind of copy.
cudaError_t check_copy(const void* target, const void* source, size_t bytes, cudaMemcpyKind kind);

// Device work: takes longer when the clock is slowed.
void copy_bytes(void* target, const void* source, size_t bytes);
void fill_bytes(void* target, int value, size_t bytes);

}  // namespace ccld::cpu_device
