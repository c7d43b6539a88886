#include "nccl/cpu_device/cuda/device.h"

#include <strings.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <vector>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"
#include "nccl/cpu_device/cuda/capture.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/streams.h"

namespace ccld::cpu_device {
namespace {

constexpr int first_bus = 0x10;
constexpr int multiprocessors = 132;
constexpr int shared_bytes_per_block = 48 << 10;
constexpr int shared_bytes_per_block_opt_in = 227 << 10;
constexpr int registers_per_block = 65536;
constexpr int l2_bytes = 50 << 20;
constexpr int bus_width_bits = 5120;

using Uuid = std::array<unsigned char, 16>;

Uuid uuid_bytes(int physical) {
  Uuid bytes = {'c', 'c', 'l', 'd', 'c', 'p', 'u', 'd', 'e', 'v', 'i', 'c', 'e', 0, 0, 0};
  bytes.back() = static_cast<unsigned char>(physical);
  return bytes;
}

// As CUDA reads it: entries in order, everything from the first invalid one on is ignored.
std::vector<int> read_visible_devices() {
  const int count = physical_device_count();
  std::vector<int> visible;
  const char* text = getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int i = 0; i < count; ++i) visible.push_back(i);
    return visible;
  }
  std::istringstream stream{std::string(text)};
  for (std::string entry; std::getline(stream, entry, ',');) {
    const size_t begin = entry.find_first_not_of(" \t");
    entry = begin == std::string::npos ? "" : entry.substr(begin, entry.find_last_not_of(" \t") - begin + 1);
    int index = -1;
    if (entry.compare(0, 4, "GPU-") == 0) {
      for (int i = 0; i < count; ++i) {
        if (uuid_text(i).compare(0, entry.size(), entry) == 0) index = i;
      }
    } else if (!entry.empty() && entry.size() < 9 && entry.find_first_not_of("0123456789") == std::string::npos) {
      index = atoi(entry.c_str());
    }
    bool repeated = false;
    for (int other : visible) repeated = repeated || other == index;
    if (index < 0 || index >= count || repeated) {
      if (entry != "-1") report("CUDA_VISIBLE_DEVICES=%s: \"%s\" and what follows is ignored", text, entry.c_str());
      break;
    }
    visible.push_back(index);
  }
  return visible;
}

const std::vector<int>& visible_devices() {
  static const auto* const instance = new std::vector<int>(read_visible_devices());
  return *instance;
}

thread_local int thread_device = 0;

bool valid(int device) { return device >= 0 && device < visible_device_count(); }

// Whether peer access was enabled, [from][to].
std::atomic<bool> peer_access[64][64];

void fill_properties(cudaDeviceProp* properties, int device) {
  const int physical = physical_index(device);
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "ccld CPU device");
  const Uuid uuid = uuid_bytes(physical);
  memcpy(properties->uuid.bytes, uuid.data(), uuid.size());
  properties->totalGlobalMem = settings().memory_bytes;
  properties->sharedMemPerBlock = shared_bytes_per_block;
  properties->sharedMemPerBlockOptin = shared_bytes_per_block_opt_in;
  properties->sharedMemPerMultiprocessor = shared_bytes_per_block_opt_in;
  properties->regsPerBlock = registers_per_block;
  properties->regsPerMultiprocessor = registers_per_block;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 0x7fffffff;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->major = compute_capability_major;
  properties->minor = compute_capability_minor;
  properties->multiProcessorCount = multiprocessors;
  properties->canMapHostMemory = 1;
  properties->concurrentKernels = 1;
  properties->pciBusID = first_bus + physical;
  properties->asyncEngineCount = 2;
  properties->unifiedAddressing = 1;
  properties->memoryBusWidth = bus_width_bits;
  properties->l2CacheSize = l2_bytes;
  properties->streamPrioritiesSupported = 1;
  properties->managedMemory = 1;
  properties->hostRegisterSupported = 1;
  properties->canUseHostPointerForRegisteredMem = 1;
  properties->memoryPoolsSupported = 1;
  properties->cooperativeLaunch = 1;
  properties->hostNumaId = -1;
}

}  // namespace

int physical_device_count() { return static_cast<int>(settings().device_count); }

int visible_device_count() { return static_cast<int>(visible_devices().size()); }

int physical_index(int visible) {
  return visible >= 0 && visible < visible_device_count() ? visible_devices()[visible] : -1;
}

int current_device() { return thread_device; }

bool set_current_device(int visible) {
  if (!valid(visible)) return false;
  thread_device = visible;
  return true;
}

std::string bus_id(int physical) {
  char text[32];
  snprintf(text, sizeof text, "0000:%02X:00.0", first_bus + physical);
  return text;
}

std::string uuid_text(int physical) {
  std::string text = "GPU-";
  const Uuid bytes = uuid_bytes(physical);
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

int physical_index_of_bus_id(const char* text) {
  unsigned domain, bus, slot, function = 0;
  if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) return -1;
  const int physical = static_cast<int>(bus) - first_bus;
  return domain == 0 && slot == 0 && function == 0 && physical >= 0 && physical < physical_device_count() ? physical
                                                                                                          : -1;
}

bool device_attribute(int attribute, int visible, int* value) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *value = 1024; return true;
    case cudaDevAttrMaxBlockDimZ: *value = 64; return true;
    case cudaDevAttrMaxGridDimX: *value = 0x7fffffff; return true;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *value = 65535; return true;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = shared_bytes_per_block; return true;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = shared_bytes_per_block_opt_in; return true;
    case cudaDevAttrWarpSize: *value = 32; return true;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = registers_per_block; return true;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; return true;
    case cudaDevAttrMultiProcessorCount: *value = multiprocessors; return true;
    case cudaDevAttrClockRate: *value = clock_mhz * 1000; return true;
    case cudaDevAttrMemoryClockRate: *value = 2619 * 1000; return true;
    case cudaDevAttrGlobalMemoryBusWidth: *value = bus_width_bits; return true;
    case cudaDevAttrL2CacheSize: *value = l2_bytes; return true;
    case cudaDevAttrAsyncEngineCount: *value = 2; return true;
    case cudaDevAttrComputeCapabilityMajor: *value = compute_capability_major; return true;
    case cudaDevAttrComputeCapabilityMinor: *value = compute_capability_minor; return true;
    case cudaDevAttrPciBusId: *value = first_bus + physical_index(visible); return true;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId: *value = 0; return true;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrMemoryPoolsSupported:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: *value = 1; return true;
    case cudaDevAttrIntegrated:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrKernelExecTimeout:
    case cudaDevAttrComputeMode:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrHostNativeAtomicSupported:
    case cudaDevAttrComputePreemptionSupported:
    case cudaDevAttrIsMultiGpuBoard:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED: *value = 0; return true;
    case cudaDevAttrGPUDirectRDMASupported:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: *value = settings().gpu_direct ? 1 : 0; return true;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: *value = settings().nvswitch ? 1 : 0; return true;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID: *value = -1; return true;
    default: report("device attribute %d is not known to the CPU device", attribute); return false;
  }
}

}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = visible_device_count();
  return remember(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

CCLD_CUDA_API cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return remember(visible_device_count() > 0 ? cudaSuccess : cudaErrorNoDevice);
}

CCLD_CUDA_API cudaError_t cudaSetDevice(int device) {
  return remember(set_current_device(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

CCLD_CUDA_API cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return remember(valid(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

CCLD_CUDA_API cudaError_t cudaDeviceSynchronize() {
  const cudaError_t error = check_unsafe_call();
  if (error != cudaSuccess) return remember(error);
  synchronize_device(current_device());
  return cudaSuccess;
}

// What the process allocated stays until it ends: other threads (NCCL's, the probe's) may still look at it.
CCLD_CUDA_API cudaError_t cudaDeviceReset() {
  const cudaError_t error = check_unsafe_call();
  if (error != cudaSuccess) return remember(error);
  if (visible_device_count() == 0) return remember(cudaErrorNoDevice);
  synchronize_device(current_device());
  for (auto& enabled : peer_access[current_device()]) enabled = false;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!valid(device)) return remember(cudaErrorInvalidDevice);
  return remember(device_attribute(attribute, device, value) ? cudaSuccess : cudaErrorInvalidValue);
}

CCLD_CUDA_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!valid(device)) return remember(cudaErrorInvalidDevice);
  fill_properties(properties, device);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!valid(device)) return remember(cudaErrorInvalidDevice);
  const std::string id = bus_id(physical_index(device));
  if (text == nullptr || length <= static_cast<int>(id.size())) return remember(cudaErrorInvalidValue);
  memcpy(text, id.c_str(), id.size() + 1);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  const int physical = physical_index_of_bus_id(text);
  for (int i = 0; physical >= 0 && i < visible_device_count(); ++i) {
    if (physical_index(i) == physical) {
      *device = i;
      return cudaSuccess;
    }
  }
  return remember(cudaErrorInvalidDevice);
}

CCLD_CUDA_API cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!valid(device) || !valid(peer)) return remember(cudaErrorInvalidDevice);
  *can = device != peer;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (!valid(peer) || peer == current_device()) return remember(cudaErrorInvalidDevice);
  if (flags != 0) return remember(cudaErrorInvalidValue);
  const bool enabled = peer_access[current_device()][peer].exchange(true);
  return remember(enabled ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

CCLD_CUDA_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!valid(peer)) return remember(cudaErrorInvalidDevice);
  const bool enabled = peer_access[current_device()][peer].exchange(false);
  return remember(enabled ? cudaSuccess : cudaErrorPeerAccessNotEnabled);
}

// Limits shape GPU resources that do not exist here: accepted, kept nowhere.
CCLD_CUDA_API cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }

CCLD_CUDA_API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  if (limit != cudaLimitStackSize) return remember(cudaErrorUnsupportedLimit);
  *value = settings().stack_bytes;
  return cudaSuccess;
}

// There is no cache to be divided.
CCLD_CUDA_API cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }

CCLD_CUDA_API cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  *config = cudaFuncCachePreferNone;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

CCLD_CUDA_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceMapHost;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaProfilerStart() { return cudaSuccess; }

CCLD_CUDA_API cudaError_t cudaProfilerStop() { return cudaSuccess; }
