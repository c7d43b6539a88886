#include "nccl/cpu_device/cuda/device.h"

#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <thread>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

TEST_CASE("Eight GPUs exist unless told otherwise, each with a bus id of its own", "[device]") {
  int count = 0;
  REQUIRE(cudaGetDeviceCount(&count) == cudaSuccess);
  REQUIRE(count == 8);
  for (int device = 0; device < count; ++device) {
    char text[32];
    int found = -1;
    REQUIRE(cudaDeviceGetPCIBusId(text, sizeof text, device) == cudaSuccess);
    REQUIRE(cudaDeviceGetByPCIBusId(&found, text) == cudaSuccess);
    REQUIRE(found == device);
  }
}

TEST_CASE("A bus id is the same in lower case and short buffers are refused", "[device]") {
  int device = -1;
  REQUIRE(cudaDeviceGetByPCIBusId(&device, "0000:1a:00.0") == cudaErrorInvalidDevice);
  REQUIRE(cudaDeviceGetByPCIBusId(&device, "0000:15:00.0") == cudaSuccess);
  REQUIRE(device == 5);
  char text[8];
  REQUIRE(cudaDeviceGetPCIBusId(text, sizeof text, 0) == cudaErrorInvalidValue);
}

TEST_CASE("The current device belongs to the thread", "[device]") {
  REQUIRE(cudaSetDevice(3) == cudaSuccess);
  int other = -1, mine = -1;
  std::thread([&] { cudaGetDevice(&other); }).join();
  cudaGetDevice(&mine);
  REQUIRE(other == 0);
  REQUIRE(mine == 3);
  REQUIRE(cudaSetDevice(8) == cudaErrorInvalidDevice);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("Properties and attributes agree", "[device]") {
  cudaDeviceProp properties;
  REQUIRE(cudaGetDeviceProperties(&properties, 2) == cudaSuccess);
  int value = 0;
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 2) == cudaSuccess);
  REQUIRE(value == properties.major);
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrPciBusId, 2) == cudaSuccess);
  REQUIRE(value == properties.pciBusID);
  REQUIRE(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 2) == cudaSuccess);
  REQUIRE(value == properties.multiProcessorCount);
}

TEST_CASE("Peer access is enabled once", "[device]") {
  cudaSetDevice(0);
  int can = 0;
  REQUIRE(cudaDeviceCanAccessPeer(&can, 0, 1) == cudaSuccess);
  REQUIRE(can == 1);
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
  REQUIRE(cudaDeviceEnablePeerAccess(1, 0) == cudaErrorPeerAccessAlreadyEnabled);
  REQUIRE(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
  REQUIRE(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);
  cudaGetLastError();
}

SCENARIO_PROCESS(print_visible_devices) {
  int count = 0;
  cudaGetDeviceCount(&count);
  for (int i = 0; i < count; ++i) {
    char text[32];
    cudaDeviceGetPCIBusId(text, sizeof text, i);
    fprintf(stderr, "%s ", text);
  }
  return count;
}

TEST_CASE("CUDA_VISIBLE_DEVICES selects and orders GPUs", "[device]") {
  const auto visible = [](const char* value) {
    return run_scenario("print_visible_devices", {{"CUDA_VISIBLE_DEVICES", value}});
  };
  REQUIRE(visible("5,2").errors == "0000:15:00.0 0000:12:00.0 ");
  REQUIRE(visible(" 1 , 3").exit_code == 2);
  REQUIRE(visible("").exit_code == 0);
  REQUIRE(visible("-1").exit_code == 0);
  REQUIRE(visible(uuid_text(6).c_str()).errors == "0000:16:00.0 ");
  const ScenarioResult partly = visible("4,9,1");
  REQUIRE(partly.exit_code == 1);
  REQUIRE(partly.says("CUDA_VISIBLE_DEVICES=4,9,1: \"9\" and what follows is ignored"));
}
