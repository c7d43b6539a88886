#include "nccl/cpu_device/cuda/foreign_kernels.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"

namespace ccld::cpu_device {
namespace {

struct ForeignKernel {
  std::string name;
  bool reported = false;
};

struct ForeignKernelTable {
  std::mutex mutex;
  std::unordered_map<const void*, ForeignKernel> kernels;
};

// Programs register from their constructors: made at first use, never destroyed.
ForeignKernelTable& table() {
  static auto* const instance = new ForeignKernelTable;
  return *instance;
}

std::string readable(const std::string& mangled) {
  int status = 0;
  char* text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  const std::string result = text != nullptr && status == 0 ? text : mangled;
  free(text);
  return result;
}

void report_no_kernel(const void* function) {
  Dl_info info{};
  const bool known = dladdr(function, &info) != 0;
  report("launch of %p (%s in %s), which is not registered as a kernel", function,
         known && info.dli_sname != nullptr ? info.dli_sname : "no symbol",
         known && info.dli_fname != nullptr ? info.dli_fname : "no library");
}

}  // namespace

void add_foreign_kernel(const void* function, const char* name) {
  std::lock_guard<std::mutex> lock(table().mutex);
  table().kernels[function].name = name;
}

std::string foreign_kernel_name(const void* function) {
  std::lock_guard<std::mutex> lock(table().mutex);
  const auto found = table().kernels.find(function);
  return found == table().kernels.end() ? "" : found->second.name;
}

cudaError_t answer_foreign_kernel(const void* function) {
  const bool skip = settings().foreign_kernels == ForeignKernels::skip;
  std::string name;
  bool reported = false;
  {
    std::lock_guard<std::mutex> lock(table().mutex);
    const auto found = table().kernels.find(function);
    if (found != table().kernels.end()) {
      name = found->second.name;
      reported = std::exchange(found->second.reported, true);
    }
  }
  if (name.empty()) {
    report_no_kernel(function);
    return cudaErrorInvalidDeviceFunction;
  }
  if (!reported) {
    report(skip ? "kernel %s is GPU code, which the CPU device cannot run: skipped, what it would write stays as it is"
                : "kernel %s is GPU code, which the CPU device cannot run: refused "
                  "(CCLD_CPU_DEVICE_FOREIGN_KERNELS=skip skips such kernels)",
           readable(name).c_str());
  }
  return skip ? cudaSuccess : cudaErrorNoKernelImageForDevice;
}

}  // namespace ccld::cpu_device
