// Variables of GPU code (__device__, __constant__, __managed__), which programs compiled by nvcc hand over before
// main(). They get memory of their size, on each GPU that asks. What the GPU code initialises them with is not read:
// they begin as zeros, and a program that may notice is told so, once for each.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/control/fault_plan.h"
#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/memory.h"

namespace ccld::cpu_device {
namespace {

struct Symbol {
  std::string name;
  size_t bytes = 0;
  bool reported = false;
  std::array<char*, faulty_gpus_max> on_gpu{};  // nullptr: nobody asked there
};

struct SymbolTable {
  std::mutex mutex;
  std::unordered_map<const void*, Symbol> symbols;  // by the address of the program's shadow of it
};

SymbolTable& table() {
  static auto* const instance = new SymbolTable;
  return *instance;
}

void report_zeros(const std::string& name) {
  report("variable %s is initialised by GPU code, which the CPU device cannot read: it begins as zeros", name.c_str());
}

// The symbol's bytes [offset, offset + bytes) on the current GPU.
cudaError_t locate(const void* shadow, size_t offset, size_t bytes, bool all_overwritten, char** address) {
  if (visible_device_count() == 0) return cudaErrorNoDevice;
  std::lock_guard<std::mutex> lock(table().mutex);
  const auto found = table().symbols.find(shadow);
  if (found == table().symbols.end()) return cudaErrorInvalidSymbol;
  Symbol& symbol = found->second;
  if (offset > symbol.bytes || bytes > symbol.bytes - offset) return cudaErrorInvalidValue;
  char*& here = symbol.on_gpu[static_cast<size_t>(physical_index(current_device()))];
  if (here == nullptr) {
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, std::max<size_t>(symbol.bytes, 1));
    if (error != cudaSuccess) return error;
    here = static_cast<char*>(memory);
    memset(here, 0, symbol.bytes);
    if (!all_overwritten && !std::exchange(symbol.reported, true)) report_zeros(symbol.name);
  }
  *address = here + offset;
  return cudaSuccess;
}

cudaError_t locate_for_write(const void* shadow, size_t offset, size_t bytes, char** address) {
  size_t whole = 0;
  const cudaError_t error = cudaGetSymbolSize(&whole, shadow);
  return error != cudaSuccess ? error : locate(shadow, offset, bytes, bytes == whole, address);
}

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API void __cudaRegisterVar(void**, char* shadow, char*, const char* name, int, size_t bytes, int, int) {
  std::lock_guard<std::mutex> lock(table().mutex);
  Symbol& symbol = table().symbols[shadow];
  symbol.name = name;
  symbol.bytes = bytes;
}

// The program reaches a managed variable through a pointer that the runtime fills in.
CCLD_CUDA_API void __cudaRegisterManagedVar(void**, void** pointer, char*, const char* name, int, size_t bytes, int,
                                            int) {
  if (cudaMallocManaged(pointer, std::max<size_t>(bytes, 1), cudaMemAttachGlobal) != cudaSuccess) {
    fatal("no memory for the managed variable %s", name);
  }
  report_zeros(name);
}

CCLD_CUDA_API cudaError_t cudaGetSymbolSize(size_t* bytes, const void* shadow) {
  std::lock_guard<std::mutex> lock(table().mutex);
  const auto found = table().symbols.find(shadow);
  if (found == table().symbols.end()) return remember(cudaErrorInvalidSymbol);
  *bytes = found->second.bytes;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaGetSymbolAddress(void** address, const void* shadow) {
  char* begin = nullptr;
  const cudaError_t error = locate(shadow, 0, 0, false, &begin);
  if (error == cudaSuccess) *address = begin;
  return remember(error);
}

CCLD_CUDA_API cudaError_t cudaMemcpyToSymbol(const void* shadow, const void* source, size_t bytes, size_t offset,
                                             cudaMemcpyKind kind) {
  char* target = nullptr;
  const cudaError_t error = locate_for_write(shadow, offset, bytes, &target);
  return error != cudaSuccess ? remember(error) : cudaMemcpy(target, source, bytes, kind);
}

CCLD_CUDA_API cudaError_t cudaMemcpyToSymbolAsync(const void* shadow, const void* source, size_t bytes, size_t offset,
                                                  cudaMemcpyKind kind, cudaStream_t stream) {
  char* target = nullptr;
  const cudaError_t error = locate_for_write(shadow, offset, bytes, &target);
  return error != cudaSuccess ? remember(error) : cudaMemcpyAsync(target, source, bytes, kind, stream);
}

CCLD_CUDA_API cudaError_t cudaMemcpyFromSymbol(void* target, const void* shadow, size_t bytes, size_t offset,
                                               cudaMemcpyKind kind) {
  char* source = nullptr;
  const cudaError_t error = locate(shadow, offset, bytes, false, &source);
  return error != cudaSuccess ? remember(error) : cudaMemcpy(target, source, bytes, kind);
}

CCLD_CUDA_API cudaError_t cudaMemcpyFromSymbolAsync(void* target, const void* shadow, size_t bytes, size_t offset,
                                                    cudaMemcpyKind kind, cudaStream_t stream) {
  char* source = nullptr;
  const cudaError_t error = locate(shadow, offset, bytes, false, &source);
  return error != cudaSuccess ? remember(error) : cudaMemcpyAsync(target, source, bytes, kind, stream);
}
