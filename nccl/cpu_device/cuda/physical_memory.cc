#include "nccl/cpu_device/cuda/physical_memory.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "nccl/cpu_device/cuda/memory.h"

namespace ccld::cpu_device {
namespace {

struct State {
  std::mutex mutex;
  std::map<CUmemGenericAllocationHandle, std::pair<PhysicalPtr, unsigned>> handles;  // with the number of references
  std::map<const PhysicalMemory*, CUmemGenericAllocationHandle> handle_of;
  CUmemGenericAllocationHandle next_handle = 1;
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

}  // namespace

PhysicalMemory::PhysicalMemory(int file, size_t bytes, const CUmemAllocationProp& properties, bool counted)
    : file(file), bytes(bytes), properties(properties), counted_(counted) {}

PhysicalMemory::PhysicalMemory(std::unique_ptr<MulticastObject> object)
    : multicast(std::move(object)), file(multicast->file()), bytes(multicast->bytes()), properties{}, counted_(false) {}

PhysicalMemory::~PhysicalMemory() {
  if (counted_) device_heap(properties.location.id).release_elsewhere(bytes);
  if (file >= 0 && multicast == nullptr) close(file);
}

CUmemGenericAllocationHandle add_reference(const PhysicalPtr& memory) {
  std::lock_guard<std::mutex> lock(state().mutex);
  auto [known, is_new] = state().handle_of.emplace(memory.get(), state().next_handle);
  if (is_new) ++state().next_handle;
  auto& entry = state().handles[known->second];
  entry.first = memory;
  ++entry.second;
  return known->second;
}

bool release_reference(CUmemGenericAllocationHandle handle) {
  PhysicalPtr last;  // freed after the lock
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().handles.find(handle);
  if (found == state().handles.end()) return false;
  if (--found->second.second == 0) {
    last = std::move(found->second.first);
    state().handle_of.erase(last.get());
    state().handles.erase(found);
  }
  return true;
}

PhysicalPtr find_physical(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> lock(state().mutex);
  const auto found = state().handles.find(handle);
  return found == state().handles.end() ? nullptr : found->second.first;
}

}  // namespace ccld::cpu_device
