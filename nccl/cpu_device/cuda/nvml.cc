// The part of NVML that NCCL and monitoring tools ask for. nvml.h is not part of every CUDA toolkit, so the few types
// are declared here. NVML sees all GPUs of the machine, whatever CUDA_VISIBLE_DEVICES says.
#include <cstdint>
#include <cstring>

#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/control/control_file.h"
#include "nccl/cpu_device/control/faults.h"
#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"

namespace ccld::cpu_device {
namespace {

// nvmlReturn_t
constexpr int nvml_success = 0;
constexpr int nvml_invalid_argument = 2;
constexpr int nvml_not_supported = 3;
constexpr int nvml_not_found = 6;
constexpr int nvml_insufficient_size = 7;

constexpr int nvml_p2p_ok = 0;

constexpr unsigned nvlinks = 18;  // of an H100
constexpr int nvlink_peer_to_peer = 0;
constexpr unsigned nvml_field_nvlink_state = 165;
constexpr char nvswitch_bus_id[] = "ffff:00:00.0";

// nvmlFieldValue_t
struct FieldValue {
  unsigned field;
  unsigned scope;  // the number of the link
  long long timestamp_us;
  long long latency_us;
  int value_type;
  int result;
  unsigned long long value;
};

// A device handle is its physical index plus one.
int index_of(void* handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  return value >= 1 && value <= static_cast<uintptr_t>(physical_device_count()) ? static_cast<int>(value) - 1 : -1;
}

void* handle_of(int physical) { return reinterpret_cast<void*>(static_cast<uintptr_t>(physical) + 1); }

int copy_text(const std::string& text, char* target, unsigned length) {
  if (length <= text.size()) return nvml_insufficient_size;
  memcpy(target, text.c_str(), text.size() + 1);
  return nvml_success;
}

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API int nvmlInit_v2() { return nvml_success; }
CCLD_CUDA_API int nvmlInit() { return nvml_success; }
CCLD_CUDA_API int nvmlInitWithFlags(unsigned) { return nvml_success; }
CCLD_CUDA_API int nvmlShutdown() { return nvml_success; }

CCLD_CUDA_API const char* nvmlErrorString(int result) {
  switch (result) {
    case nvml_success: return "success";
    case nvml_invalid_argument: return "invalid argument";
    case nvml_not_supported: return "not supported by the CPU device";
    case nvml_not_found: return "not found";
    case nvml_insufficient_size: return "insufficient size";
    default: return "unknown error";
  }
}

CCLD_CUDA_API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(physical_device_count());
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

CCLD_CUDA_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= static_cast<unsigned>(physical_device_count())) return nvml_invalid_argument;
  *device = handle_of(static_cast<int>(index));
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetHandleByIndex(unsigned index, void** device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

CCLD_CUDA_API int nvmlDeviceGetHandleByPciBusId_v2(const char* text, void** device) {
  const int physical = physical_index_of_bus_id(text);
  if (physical < 0) return nvml_not_found;
  *device = handle_of(physical);
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetHandleByPciBusId(const char* text, void** device) {
  return nvmlDeviceGetHandleByPciBusId_v2(text, device);
}

CCLD_CUDA_API int nvmlDeviceGetIndex(void* device, unsigned* index) {
  if (index_of(device) < 0) return nvml_invalid_argument;
  *index = static_cast<unsigned>(index_of(device));
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetName(void* device, char* name, unsigned length) {
  return index_of(device) < 0 ? nvml_invalid_argument : copy_text("ccld CPU device", name, length);
}

CCLD_CUDA_API int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
  return index_of(device) < 0 ? nvml_invalid_argument : copy_text(uuid_text(index_of(device)), uuid, length);
}

CCLD_CUDA_API int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  if (index_of(device) < 0) return nvml_invalid_argument;
  *major = compute_capability_major;
  *minor = compute_capability_minor;
  return nvml_success;
}

// What a slowed clock looks like from outside: the same frequency that the process's kernels feel.
CCLD_CUDA_API int nvmlDeviceGetClockInfo(void* device, int, unsigned* mhz) {
  if (index_of(device) < 0) return nvml_invalid_argument;
  start_control_file();
  *mhz = static_cast<unsigned>(clock_mhz / clock_slowdown());
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetMaxClockInfo(void* device, int, unsigned* mhz) {
  if (index_of(device) < 0) return nvml_invalid_argument;
  *mhz = clock_mhz;
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetP2PStatus(void* from, void* to, int, int* status) {
  if (index_of(from) < 0 || index_of(to) < 0) return nvml_invalid_argument;
  *status = nvml_p2p_ok;
  return nvml_success;
}

// Without switches there is no NVLink and there are no fields: NCCL then sees GPUs on PCI.
CCLD_CUDA_API int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  if (!settings().nvswitch) return nvml_not_supported;
  if (index_of(device) < 0 || link >= nvlinks) return nvml_invalid_argument;
  *active = 1;
  return nvml_success;
}

// A switch, which is not among the machine's PCI devices: as a virtual machine sees it.
CCLD_CUDA_API int nvmlDeviceGetNvLinkRemotePciInfo(void* device, unsigned link, void* pci_info) {
  if (!settings().nvswitch) return nvml_not_supported;
  if (index_of(device) < 0 || link >= nvlinks) return nvml_invalid_argument;
  // The first field of nvmlPciInfo_t is the bus id, in 16 bytes.
  memcpy(pci_info, nvswitch_bus_id, sizeof nvswitch_bus_id);
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetNvLinkCapability(void* device, unsigned link, int capability, unsigned* value) {
  if (!settings().nvswitch) return nvml_not_supported;
  if (index_of(device) < 0 || link >= nvlinks) return nvml_invalid_argument;
  *value = capability == nvlink_peer_to_peer ? 1 : 0;
  return nvml_success;
}

CCLD_CUDA_API int nvmlDeviceGetFieldValues(void* device, int count, FieldValue* values) {
  if (!settings().nvswitch) return nvml_not_supported;
  if (index_of(device) < 0) return nvml_invalid_argument;
  for (FieldValue* value = values; value < values + count; ++value) {
    const bool known = value->field == nvml_field_nvlink_state && value->scope < nvlinks;
    value->result = known ? nvml_success : nvml_not_supported;
    value->value = known ? 1 : 0;
  }
  return nvml_success;
}
