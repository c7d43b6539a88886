// The control file of the CPU device.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "nccl/cpu_device/control/fault_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::cpu_device;
  const ParsedFaultPlan parsed = parse_fault_plan({reinterpret_cast<const char*>(data), size});
  if (parsed.plan.of_gpu.size() > faulty_gpus_max) std::abort();
  for (unsigned gpu = 0; gpu < faulty_gpus_max; ++gpu) {
    const double slowdown = parsed.plan.on_gpu(gpu).clock_slowdown;
    if (!(slowdown >= 1 && slowdown <= clock_slowdown_max)) std::abort();
  }
  return 0;
}
