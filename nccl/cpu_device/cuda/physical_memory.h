// What the handles of the driver's virtual memory management stand for: memory without an address, or a multicast
// object.
//
// Threads: safe from any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "nccl/cpu_device/cuda/multicast_object.h"

namespace ccld::cpu_device {

constexpr size_t granularity_bytes = 2 << 20;
inline bool is_aligned(uint64_t value) { return value % granularity_bytes == 0; }

// One physical allocation or multicast object. Mappings and handles share it.
class PhysicalMemory {
 public:
  // Owns the file. `counted`: against its device's memory; imports are counted by their creator.
  PhysicalMemory(int file, size_t bytes, const CUmemAllocationProp& properties, bool counted);
  explicit PhysicalMemory(std::unique_ptr<MulticastObject>);
  PhysicalMemory(const PhysicalMemory&) = delete;
  ~PhysicalMemory();

  bool is_on_device() const { return properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE; }

  const std::unique_ptr<MulticastObject> multicast;  // nullptr: memory
  const int file;
  const size_t bytes;
  const CUmemAllocationProp properties;

 private:
  const bool counted_;
};
using PhysicalPtr = std::shared_ptr<PhysicalMemory>;

// A handle may be retained several times; each reference is released on its own.
CUmemGenericAllocationHandle add_reference(const PhysicalPtr&);
// Returns false if there is no such handle.
bool release_reference(CUmemGenericAllocationHandle);
// nullptr if there is no such handle.
PhysicalPtr find_physical(CUmemGenericAllocationHandle);

}  // namespace ccld::cpu_device
