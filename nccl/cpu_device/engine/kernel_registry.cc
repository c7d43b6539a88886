#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, KernelInfo> kernels;
};

// Kernels register from constructors of other libraries: made at first use, never destroyed.
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

}  // namespace

void register_kernel(const void* function, const KernelInfo& info) {
  std::unique_lock<std::shared_mutex> lock(registry().mutex);
  registry().kernels.emplace(function, info);
}

const KernelInfo* find_kernel(const void* function) {
  std::shared_lock<std::shared_mutex> lock(registry().mutex);
  const auto found = registry().kernels.find(function);
  return found == registry().kernels.end() ? nullptr : &found->second;
}

}  // namespace ccld::cpu_device
