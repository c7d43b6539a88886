#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <string>

#include "nccl/cpu_device/control/faults.h"
#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

extern "C" {
int nvmlInit_v2();
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex(unsigned index, void** device);
int nvmlDeviceGetHandleByPciBusId(const char* text, void** device);
int nvmlDeviceGetIndex(void* device, unsigned* index);
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz);
int nvmlDeviceGetMaxClockInfo(void* device, int clock, unsigned* mhz);
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active);
int nvmlDeviceGetNvLinkRemotePciInfo(void* device, unsigned link, void* pci_info);
}

TEST_CASE("NVML finds the GPU of a bus id that CUDA gave", "[nvml]") {
  REQUIRE(nvmlInit_v2() == 0);
  char text[32];
  void* device;
  unsigned index = 0;
  REQUIRE(cudaDeviceGetPCIBusId(text, sizeof text, 6) == cudaSuccess);
  REQUIRE(nvmlDeviceGetHandleByPciBusId(text, &device) == 0);
  REQUIRE(nvmlDeviceGetIndex(device, &index) == 0);
  REQUIRE(index == 6);
  REQUIRE(nvmlDeviceGetHandleByIndex(8, &device) != 0);
}

TEST_CASE("NVML shows a slowed clock", "[nvml]") {
  void* device;
  unsigned now_mhz = 0, most_mhz = 0;
  REQUIRE(nvmlDeviceGetHandleByIndex(0, &device) == 0);
  REQUIRE(nvmlDeviceGetMaxClockInfo(device, 1, &most_mhz) == 0);
  REQUIRE(nvmlDeviceGetClockInfo(device, 1, &now_mhz) == 0);
  REQUIRE(now_mhz == most_mhz);
  FaultPlan plan;
  plan.clock_slowdown = 4;
  set_faults(plan);
  REQUIRE(nvmlDeviceGetClockInfo(device, 1, &now_mhz) == 0);
  set_faults({});
  REQUIRE(now_mhz == most_mhz / 4);
}

SCENARIO_PROCESS(count_gpus_of_nvml) {
  unsigned count = 0;
  nvmlDeviceGetCount_v2(&count);
  return static_cast<int>(count);
}

TEST_CASE("NVML sees the GPUs that CUDA_VISIBLE_DEVICES hides", "[nvml]") {
  REQUIRE(run_scenario("count_gpus_of_nvml", {{"CUDA_VISIBLE_DEVICES", "2"}}).exit_code == 8);
}

SCENARIO_PROCESS(follow_nvlinks) {
  void* device;
  int active = 0, links = 0;
  char first[64] = "", other[64] = "";
  nvmlDeviceGetHandleByIndex(0, &device);
  nvmlDeviceGetNvLinkRemotePciInfo(device, 0, first);
  while (nvmlDeviceGetNvLinkState(device, static_cast<unsigned>(links), &active) == 0 && active == 1) ++links;
  nvmlDeviceGetHandleByIndex(7, &device);
  nvmlDeviceGetNvLinkRemotePciInfo(device, 17, other);
  void* gpu;
  const bool is_gpu = nvmlDeviceGetHandleByPciBusId(first, &gpu) == 0;
  return first[0] != '\0' && std::string(first) == other && !is_gpu ? links : 100;
}

TEST_CASE("NVLinks of all GPUs lead to one switch, where there is one", "[nvml]") {
  REQUIRE(run_scenario("follow_nvlinks", {{"CCLD_CPU_DEVICE_NVSWITCH", "1"}}).exit_code == 18);
  void* device;
  int active = 0;
  REQUIRE(nvmlDeviceGetHandleByIndex(0, &device) == 0);
  REQUIRE(nvmlDeviceGetNvLinkState(device, 0, &active) != 0);
}
