#include "test/support/workload/device_time.h"

#include <dlfcn.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace ccld::workload {

void compute(cudaStream_t stream, double ms) {
  using BusyCall = int (*)(void* stream, unsigned long long device_ns);
  static const BusyCall busy = reinterpret_cast<BusyCall>(dlsym(RTLD_DEFAULT, "ccld_cpu_device_busy"));
  if (ms <= 0) return;
  if (busy == nullptr) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
    return;
  }
  const int result = busy(stream, static_cast<unsigned long long>(ms * 1e6));
  if (result != 0) throw std::runtime_error("ccld_cpu_device_busy failed with " + std::to_string(result));
}

}  // namespace ccld::workload
