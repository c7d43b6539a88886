#include "test/support/collnet/devices.h"

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "test/support/collnet/streams.h"

namespace ccld::collnet {
namespace {

constexpr int devices_max = 8;
constexpr int speed_mbit_per_s = 100000;
constexpr int connections_max = 1 << 16;
constexpr size_t transfer_bytes_max = size_t{1} << 30;

}  // namespace

ncclResult_t count_devices(int* count) {
  const char* text = getenv("CCLD_TEST_NET_DEVICES");
  *count = text == nullptr ? 1 : atoi(text);
  return *count >= 1 && *count <= devices_max ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t describe_device(int device, ncclNetProperties_v11_t* properties) {
  static char names[devices_max][8];
  snprintf(names[device], sizeof names[device], "soft%d", device);
  *properties = {};
  properties->name = names[device];
  properties->guid = static_cast<uint64_t>(device) + 1;
  properties->ptrSupport = NCCL_PTR_HOST;
  properties->speed = speed_mbit_per_s;
  properties->maxComms = connections_max;
  properties->maxRecvs = 1;
  properties->netDeviceType = NCCL_NET_DEVICE_HOST;
  properties->netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
  properties->vProps.ndevs = 1;
  properties->vProps.devs[0] = device;
  properties->maxP2pBytes = properties->maxCollBytes = transfer_bytes_max;
  properties->maxMultiRequestSize = 1;
  return ncclSuccess;
}

ncclResult_t listen(void*, int, void* handle, void** listener) {
  auto made = std::make_unique<Listener>();
  if (!made->valid()) return ncclSystemError;
  *static_cast<Address*>(handle) = made->address();
  *listener = made.release();
  return ncclSuccess;
}

ncclResult_t close_listener(void* listener) {
  delete static_cast<Listener*>(listener);
  return ncclSuccess;
}

ncclResult_t no_registration(void*, void*, size_t, int, void** handle) {
  *handle = nullptr;
  return ncclSuccess;
}

ncclResult_t no_deregistration(void*, void*) { return ncclSuccess; }

ncclResult_t finish(void*) { return ncclSuccess; }

}  // namespace ccld::collnet
