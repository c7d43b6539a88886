#include "probe/health/gpu_part.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>

namespace ccld::probe {
namespace {

using abi::MetricId;

constexpr unsigned gpus_max = 32;
constexpr unsigned events_per_look_max = 64;

template <class Function>
void find(void* library, Function* function, const char* name) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
}

// As CUDA and NCCL write it: domain of four digits, lower case.
std::string bus_id_of(const NvmlFunctions::Pci& pci) {
  char text[32];
  snprintf(text, sizeof(text), "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
  return text;
}

}  // namespace

bool load_nvml(NvmlFunctions* f, std::string* reason) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    *reason = error != nullptr ? error : "libnvidia-ml.so.1 cannot be loaded";
    return false;
  }
  find(library, &f->init, "nvmlInit_v2");
  find(library, &f->device_count, "nvmlDeviceGetCount_v2");
  find(library, &f->device_by_index, "nvmlDeviceGetHandleByIndex_v2");
  find(library, &f->pci_info, "nvmlDeviceGetPciInfo_v3");
  find(library, &f->clock, "nvmlDeviceGetClockInfo");
  find(library, &f->max_clock, "nvmlDeviceGetMaxClockInfo");
  find(library, &f->throttle_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  find(library, &f->temperature, "nvmlDeviceGetTemperature");
  find(library, &f->power, "nvmlDeviceGetPowerUsage");
  find(library, &f->utilization, "nvmlDeviceGetUtilizationRates");
  find(library, &f->total_ecc_errors, "nvmlDeviceGetTotalEccErrors");
  find(library, &f->pcie_replays, "nvmlDeviceGetPcieReplayCounter");
  find(library, &f->event_set_create, "nvmlEventSetCreate");
  find(library, &f->register_events, "nvmlDeviceRegisterEvents");
  find(library, &f->event_set_wait, "nvmlEventSetWait_v2");
  if (f->init == nullptr || f->device_count == nullptr || f->device_by_index == nullptr || f->pci_info == nullptr) {
    *reason = "libnvidia-ml.so.1 lacks the basic functions";
    return false;
  }
  return true;
}

GpuPart::GpuPart(const NvmlFunctions* functions) {
  if (functions == nullptr) return;
  nvml_ = *functions;
  given_ = true;
}

bool GpuPart::open(std::vector<std::string>* absent) {
  std::string reason;
  if (!given_ && !load_nvml(&nvml_, &reason)) {
    absent->push_back("no NVML, nothing about GPUs: " + reason);
    return false;
  }
  unsigned count = 0;
  if (nvml_.init() != NvmlFunctions::success || nvml_.device_count(&count) != NvmlFunctions::success || count == 0) {
    absent->push_back("NVML finds no GPU");
    return false;
  }
  if (nvml_.event_set_create == nullptr || nvml_.register_events == nullptr || nvml_.event_set_wait == nullptr ||
      nvml_.event_set_create(&events_) != NvmlFunctions::success)
    events_ = nullptr;
  unsigned with_xids = 0;
  for (unsigned i = 0; i < count && i < gpus_max; ++i) {
    Gpu gpu{};
    NvmlFunctions::Pci pci{};
    if (nvml_.device_by_index(i, &gpu.device) != NvmlFunctions::success) continue;
    if (nvml_.pci_info(gpu.device, &pci) != NvmlFunctions::success) continue;
    gpu.bus_id = bus_id_of(pci);
    gpu.watches_xids = events_ != nullptr &&
                       nvml_.register_events(gpu.device, NvmlFunctions::event_xid, events_) == NvmlFunctions::success;
    with_xids += gpu.watches_xids ? 1 : 0;
    gpus_.push_back(gpu);
  }
  if (with_xids == 0) absent->push_back("NVML reports no XIDs here");
  return !gpus_.empty();
}

void GpuPart::take_events() {
  if (events_ == nullptr) return;
  NvmlFunctions::Event event{};
  for (unsigned i = 0; i < events_per_look_max; ++i) {
    if (nvml_.event_set_wait(events_, &event, 0) != NvmlFunctions::success) return;
    for (Gpu& gpu : gpus_) {
      if (gpu.device != event.device || event.type != NvmlFunctions::event_xid) continue;
      gpu.xid_last = static_cast<int64_t>(event.data);
      ++gpu.xid_count;
    }
  }
}

void GpuPart::read(Instant, Metrics* out) {
  take_events();
  for (const Gpu& gpu : gpus_) {
    const auto add = [&](MetricId id, int64_t value) { add_metric(out, id, value, gpu.bus_id); };
    // One number that NVML gives for the device, if it does.
    const auto one = [&](MetricId id, auto function, auto... arguments) {
      unsigned value = 0;
      if (function != nullptr && function(gpu.device, arguments..., &value) == NvmlFunctions::success) add(id, value);
    };
    one(MetricId::gpu_sm_clock_mhz, nvml_.clock, NvmlFunctions::clock_sm);
    one(MetricId::gpu_sm_clock_max_mhz, nvml_.max_clock, NvmlFunctions::clock_sm);
    one(MetricId::gpu_memory_clock_mhz, nvml_.clock, NvmlFunctions::clock_memory);
    one(MetricId::gpu_temperature_c, nvml_.temperature, NvmlFunctions::temperature_gpu);
    one(MetricId::gpu_power_mw, nvml_.power);
    one(MetricId::gpu_pcie_replays, nvml_.pcie_replays);
    unsigned long long wide = 0;
    if (nvml_.throttle_reasons != nullptr && nvml_.throttle_reasons(gpu.device, &wide) == NvmlFunctions::success)
      add(MetricId::gpu_throttle_reasons, static_cast<int64_t>(wide));
    unsigned use[2] = {};
    if (nvml_.utilization != nullptr && nvml_.utilization(gpu.device, use) == NvmlFunctions::success)
      add(MetricId::gpu_utilization_percent, use[0]);
    if (nvml_.total_ecc_errors != nullptr &&
        nvml_.total_ecc_errors(gpu.device, NvmlFunctions::error_uncorrected, NvmlFunctions::counter_volatile, &wide) ==
            NvmlFunctions::success)
      add(MetricId::gpu_ecc_uncorrected, static_cast<int64_t>(wide));
    if (!gpu.watches_xids) continue;
    add(MetricId::gpu_xid_last, gpu.xid_last);
    add(MetricId::gpu_xid_count, gpu.xid_count);
  }
}

}  // namespace ccld::probe
