// GPUs, as NVML shows them: clocks, reasons for throttling, temperature, power, use, memory errors, XIDs.
//
// Contract
//   NVML is loaded when it is there, never linked. All its functions are reached through NvmlFunctions, so that tests
//   have an NVML of their own; a function that is missing or says "not supported" gives no value. XIDs are taken from
//   NVML's event queue without waiting; they count from the start of the health thread.
//
// Threads: the health thread.
#pragma once

#include "probe/health/part.h"

namespace ccld::probe {

// The part of NVML's C interface that is used here, by name of the function without its prefix.
struct NvmlFunctions {
  using Device = void*;
  using EventSet = void*;
  struct Pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
  };
  struct Event {
    Device device;
    unsigned long long type;
    unsigned long long data;  // the number of an XID
    unsigned gpu_instance, compute_instance;
  };
  static constexpr int success = 0;
  static constexpr unsigned clock_sm = 1, clock_memory = 2;
  static constexpr unsigned temperature_gpu = 0;
  static constexpr unsigned error_uncorrected = 1, counter_volatile = 0;
  static constexpr unsigned long long event_xid = 8;

  int (*init)() = nullptr;
  int (*device_count)(unsigned*) = nullptr;
  int (*device_by_index)(unsigned, Device*) = nullptr;
  int (*pci_info)(Device, Pci*) = nullptr;
  int (*clock)(Device, unsigned kind, unsigned* mhz) = nullptr;
  int (*max_clock)(Device, unsigned kind, unsigned* mhz) = nullptr;
  int (*throttle_reasons)(Device, unsigned long long*) = nullptr;
  int (*temperature)(Device, unsigned sensor, unsigned* celsius) = nullptr;
  int (*power)(Device, unsigned* milliwatts) = nullptr;
  int (*utilization)(Device, unsigned* gpu_and_memory) = nullptr;  // two numbers
  int (*total_ecc_errors)(Device, unsigned kind, unsigned counter, unsigned long long*) = nullptr;
  int (*pcie_replays)(Device, unsigned*) = nullptr;
  int (*event_set_create)(EventSet*) = nullptr;
  int (*register_events)(Device, unsigned long long types, EventSet) = nullptr;
  int (*event_set_wait)(EventSet, Event*, unsigned timeout_ms) = nullptr;
};
static_assert(sizeof(NvmlFunctions::Pci) == 68 && sizeof(NvmlFunctions::Event) == 32);

// libnvidia-ml.so.1, loaded once and never unloaded. False with a reason if it is not there.
bool load_nvml(NvmlFunctions*, std::string* reason);

class GpuPart final : public HealthPart {
 public:
  // `functions` null: those of libnvidia-ml.
  explicit GpuPart(const NvmlFunctions* functions = nullptr);
  bool open(std::vector<std::string>* absent) override;
  void read(Instant now, Metrics* out) override;
  unsigned source_count() const override { return static_cast<unsigned>(gpus_.size()); }

 private:
  struct Gpu {
    NvmlFunctions::Device device;
    std::string bus_id;
    int64_t xid_last = 0;
    int64_t xid_count = 0;
    bool watches_xids = false;
  };
  void take_events();

  NvmlFunctions nvml_;
  bool given_ = false;
  NvmlFunctions::EventSet events_ = nullptr;
  std::vector<Gpu> gpus_;
};

}  // namespace ccld::probe
