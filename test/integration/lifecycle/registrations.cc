#include "test/integration/lifecycle/registrations.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <set>

#include "schemas/abi/frame.h"

namespace ccld::lifecycle_test {
namespace {

std::mutex mutex;
std::set<void*> frames;
Registrations counts;
bool refused = false;

template <class Function>
Function next(const char* name) {
  auto* const found = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  if (found == nullptr) abort();
  return found;
}

}  // namespace

Registrations registrations() {
  std::lock_guard<std::mutex> lock(mutex);
  return counts;
}

void refuse_registrations() {
  std::lock_guard<std::mutex> lock(mutex);
  refused = true;
}

}  // namespace ccld::lifecycle_test

using namespace ccld::lifecycle_test;

extern "C" __attribute__((visibility("default"))) cudaError_t cudaHostRegister(void* memory, size_t bytes,
                                                                               unsigned flags) {
  static const auto real = next<cudaError_t (*)(void*, size_t, unsigned)>("cudaHostRegister");
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (refused) return cudaErrorNotSupported;
  }
  const cudaError_t error = real(memory, bytes, flags);
  std::lock_guard<std::mutex> lock(mutex);
  if (error == cudaSuccess && bytes >= ccld::abi::frame_bytes(1)) {
    frames.insert(memory);
    ++counts.taken;
  }
  return error;
}

extern "C" __attribute__((visibility("default"))) cudaError_t cudaHostUnregister(void* memory) {
  static const auto real = next<cudaError_t (*)(void*)>("cudaHostUnregister");
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (frames.erase(memory) != 0) ++counts.given_back;
  }
  return real(memory);
}

extern "C" __attribute__((visibility("default"))) cudaError_t cudaMalloc(void** memory, size_t bytes) {
  static const auto real = next<cudaError_t (*)(void**, size_t)>("cudaMalloc");
  {
    std::lock_guard<std::mutex> lock(mutex);
    ++counts.allocations;
  }
  return real(memory, bytes);
}
