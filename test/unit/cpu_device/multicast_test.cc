#include "nccl/cpu_device/engine/multicast.h"

#include <fcntl.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <string>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

constexpr size_t mib = 1 << 20;
const Environment with_switches = {{"CCLD_CPU_DEVICE_NVSWITCH", "1"}};

// One GPU's part in a multicast object: its memory and, mapped, the object.
struct Member {
  CUmemGenericAllocationHandle memory = 0;
  CUdeviceptr own = 0;
  CUdeviceptr everyone = 0;

  uint64_t* words() const { return reinterpret_cast<uint64_t*>(own); }
};

CUdeviceptr mapped(CUmemGenericAllocationHandle handle, size_t bytes, int device) {
  CUdeviceptr address = 0;
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (cuMemAddressReserve(&address, bytes, 0, 0, 0) != CUDA_SUCCESS ||
      cuMemMap(address, bytes, 0, handle, 0) != CUDA_SUCCESS ||
      cuMemSetAccess(address, bytes, &access, 1) != CUDA_SUCCESS) {
    return 0;
  }
  return address;
}

CUmemGenericAllocationHandle new_object(unsigned devices, size_t bytes) {
  CUmulticastObjectProp properties{};
  properties.numDevices = devices;
  properties.size = bytes;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle object = 0;
  return cuMulticastCreate(&object, &properties) == CUDA_SUCCESS ? object : 0;
}

CUmemGenericAllocationHandle new_memory(int device, size_t bytes) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle memory = 0;
  return cuMemCreate(&memory, bytes, &properties, 0) == CUDA_SUCCESS ? memory : 0;
}

// The GPU must have been added. False when anything fails.
bool join(CUmemGenericAllocationHandle object, int device, size_t bytes, Member* member) {
  member->memory = new_memory(device, bytes);
  member->own = mapped(member->memory, bytes, device);
  if (cuMulticastBindMem(object, 0, member->memory, 0, bytes, 0) != CUDA_SUCCESS) return false;
  member->everyone = mapped(object, bytes, device);
  return member->own != 0 && member->everyone != 0;
}

// What device code makes of a view, for one word.
uint64_t sum_at(CUdeviceptr address) {
  const MulticastView& view = multicast_view(address, sizeof(uint64_t));
  uint64_t sum = 0;
  for (int i = 0; i < view.member_count; ++i) {
    sum += *reinterpret_cast<uint64_t*>(view.members[i] + (address - view.begin));
  }
  return sum;
}

void store_at(CUdeviceptr address, uint64_t value) {
  const MulticastView& view = multicast_view(address, sizeof value);
  for (int i = 0; i < view.member_count; ++i) {
    *reinterpret_cast<uint64_t*>(view.members[i] + (address - view.begin)) = value;
  }
}

}  // namespace

TEST_CASE("Without switches there is no multicast", "[multicast]") {
  int supported = -1;
  REQUIRE(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0) == CUDA_SUCCESS);
  REQUIRE(supported == 0);
  CUmulticastObjectProp properties{};
  properties.numDevices = 2;
  properties.size = 2 * mib;
  CUmemGenericAllocationHandle object;
  REQUIRE(cuMulticastCreate(&object, &properties) == CUDA_ERROR_NOT_SUPPORTED);
}

SCENARIO_PROCESS(multicast_of_three_gpus) {
  int supported = 0;
  cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0);
  if (supported != 1) return 1;
  const CUmemGenericAllocationHandle object = new_object(3, 4 * mib);
  Member members[3];
  for (int device : {1, 2, 5}) {
    if (cuMulticastAddDevice(object, device) != CUDA_SUCCESS) return 2;
  }
  const int devices[] = {1, 2, 5};
  for (int i = 0; i < 3; ++i) {
    if (!join(object, devices[i], 4 * mib, &members[i])) return 3;
    members[i].words()[70000] = 10u + static_cast<uint64_t>(i);
  }
  // Whichever GPU's mapping is used, it stands for the memory of all.
  for (const Member& member : members) {
    if (sum_at(member.everyone + 8 * 70000) != 33) return 4;
  }
  store_at(members[0].everyone + 16, 7);
  for (const Member& member : members) {
    if (member.words()[2] != 7) return 5;
  }
  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(members[0].everyone));
  if (attributes.type != cudaMemoryTypeDevice) return 6;
  // Taken apart, and the memory stays usable.
  for (int i = 0; i < 3; ++i) {
    if (cuMulticastUnbind(object, devices[i], 0, 4 * mib) != CUDA_SUCCESS) return 7;
    if (cuMulticastUnbind(object, devices[i], 0, 4 * mib) != CUDA_ERROR_INVALID_VALUE) return 8;
    if (cuMemUnmap(members[i].everyone, 4 * mib) != CUDA_SUCCESS) return 9;
    if (is_multicast(members[i].everyone)) return 10;
    if (cuMemAddressFree(members[i].everyone, 4 * mib) != CUDA_SUCCESS) return 11;
    members[i].words()[0] = 1;
  }
  return cuMemRelease(object) == CUDA_SUCCESS ? 0 : 12;
}

TEST_CASE("An access to a multicast address is one to the memory of all its GPUs", "[multicast]") {
  const ScenarioResult result = run_scenario("multicast_of_three_gpus", with_switches);
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
}

SCENARIO_PROCESS(multicast_of_an_address) {
  const CUmemGenericAllocationHandle object = new_object(1, 2 * mib);
  cuMulticastAddDevice(object, 4);
  const CUmemGenericAllocationHandle memory = new_memory(4, 6 * mib);
  const CUdeviceptr own = mapped(memory, 6 * mib, 4);
  void* ordinary;
  cudaMalloc(&ordinary, 4 * mib);
  const CUdeviceptr aligned = (reinterpret_cast<CUdeviceptr>(ordinary) + 2 * mib - 1) & ~(2 * mib - 1);
  if (cuMulticastBindAddr(object, 0, aligned, 2 * mib, 0) != CUDA_ERROR_INVALID_VALUE) return 1;
  if (cuMulticastBindAddr(object, 0, own + 2 * mib, 2 * mib, 0) != CUDA_SUCCESS) return 2;
  const CUdeviceptr everyone = mapped(object, 2 * mib, 4);
  store_at(everyone + 8, 11);
  return reinterpret_cast<uint64_t*>(own + 2 * mib)[1] == 11 ? 0 : 3;
}

TEST_CASE("Mapped memory is bound by its address, ordinary memory is refused", "[multicast]") {
  REQUIRE(run_scenario("multicast_of_an_address", with_switches).exit_code == 0);
}

SCENARIO_PROCESS(multicast_refusals) {
  CUmulticastObjectProp properties{};
  CUmemGenericAllocationHandle object, memory = new_memory(0, 2 * mib);
  properties.numDevices = 2;
  properties.size = 4096;  // granularity
  if (cuMulticastCreate(&object, &properties) != CUDA_ERROR_INVALID_VALUE) return 1;
  object = new_object(2, 2 * mib);
  if (cuMulticastAddDevice(memory, 0) != CUDA_ERROR_INVALID_VALUE) return 2;
  if (cuMulticastAddDevice(object, 99) != CUDA_ERROR_INVALID_DEVICE) return 3;
  cuMulticastAddDevice(object, 0);
  if (cuMulticastAddDevice(object, 0) != CUDA_ERROR_INVALID_VALUE) return 4;
  if (cuMulticastBindMem(object, 0, memory, 0, 2 * mib, 0) != CUDA_ERROR_NOT_READY) return 5;  // GPU 1 is missing
  cuMulticastAddDevice(object, 1);
  if (cuMulticastAddDevice(object, 2) != CUDA_ERROR_INVALID_VALUE) return 6;
  if (cuMulticastBindMem(object, 0, new_memory(2, 2 * mib), 0, 2 * mib, 0) != CUDA_ERROR_INVALID_VALUE) return 7;
  if (cuMulticastBindMem(object, 2 * mib, memory, 0, 2 * mib, 0) != CUDA_ERROR_INVALID_VALUE) return 8;
  if (cuMulticastBindMem(object, 0, memory, 0, 2 * mib, 0) != CUDA_SUCCESS) return 9;
  return cuMulticastBindMem(object, 0, memory, 0, 2 * mib, 0) == CUDA_ERROR_INVALID_VALUE ? 0 : 10;  // bound already
}

TEST_CASE("A multicast object refuses what does not fit", "[multicast]") {
  REQUIRE(run_scenario("multicast_refusals", with_switches).exit_code == 0);
}

// GPU 6's part; the argument names the parent's descriptors.
SCENARIO_PROCESS(join_multicast) {
  const int file = open(scenario_argument().c_str(), O_RDWR);
  CUmemGenericAllocationHandle object;
  if (cuMemImportFromShareableHandle(&object, reinterpret_cast<void*>(static_cast<uintptr_t>(file)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
    return 1;
  }
  close(file);
  Member member;
  if (!join(object, 6, 2 * mib, &member)) return 2;
  member.words()[3] = 30;
  if (sum_at(member.everyone + 24) != 33) return 3;
  store_at(member.everyone, 5);
  return member.words()[0] == 5 ? 0 : 4;
}

SCENARIO_PROCESS(share_multicast) {
  const CUmemGenericAllocationHandle object = new_object(2, 2 * mib);
  cuMulticastAddDevice(object, 3);
  cuMulticastAddDevice(object, 6);
  Member member;
  if (!join(object, 3, 2 * mib, &member)) return 100;
  member.words()[3] = 3;
  int file = -1;
  if (cuMemExportToShareableHandle(&file, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS) {
    return 101;
  }
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
  const int result = run_scenario("join_multicast", with_switches, path).exit_code;
  if (result != 0) return result;
  return member.words()[0] == 5 ? 0 : 102;
}

TEST_CASE("GPUs of two processes take part in one multicast object", "[multicast]") {
  const ScenarioResult result = run_scenario("share_multicast", with_switches);
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
}

SCENARIO_PROCESS(multimem_before_all_are_bound) {
  const CUmemGenericAllocationHandle object = new_object(2, 2 * mib);
  cuMulticastAddDevice(object, 0);
  cuMulticastAddDevice(object, 1);
  Member member;
  if (!join(object, 0, 2 * mib, &member)) return 1;
  sum_at(member.everyone);
  return 0;
}

SCENARIO_PROCESS(store_after_one_has_left) {
  const CUmemGenericAllocationHandle object = new_object(2, 2 * mib);
  cuMulticastAddDevice(object, 0);
  cuMulticastAddDevice(object, 1);
  Member left, stays;
  if (!join(object, 0, 2 * mib, &left) || !join(object, 1, 2 * mib, &stays)) return 1;
  if (!multicast_view(stays.everyone, 8).whole) return 2;
  if (cuMulticastUnbind(object, 0, 0, 2 * mib) != CUDA_SUCCESS) return 3;
  store_at(stays.everyone + 8, 7);
  if (stays.words()[1] != 7 || left.words()[1] != 0) return 4;
  // Nothing can be summed up.
  if (multicast_view(stays.everyone, 8).whole) return 5;
  if (cuMulticastBindMem(object, 0, left.memory, 0, 2 * mib, 0) != CUDA_SUCCESS) return 6;
  return multicast_view(stays.everyone, 8).whole ? 0 : 7;
}

TEST_CASE("What is stored after a GPU has taken its memory back reaches the others", "[multicast]") {
  const ScenarioResult result = run_scenario("store_after_one_has_left", with_switches);
  INFO(result.errors);
  REQUIRE(result.exit_code == 0);
}

SCENARIO_PROCESS(plain_load_of_multicast) {
  const CUmemGenericAllocationHandle object = new_object(1, 2 * mib);
  cuMulticastAddDevice(object, 0);
  Member member;
  if (!join(object, 0, 2 * mib, &member)) return 1;
  return static_cast<int>(*reinterpret_cast<volatile uint64_t*>(member.everyone));
}

SCENARIO_PROCESS(multimem_of_ordinary_memory) {
  uint64_t word = 0;
  store_at(reinterpret_cast<CUdeviceptr>(&word), 1);
  return 0;
}

TEST_CASE("Multicast memory that cannot be reached ends the process", "[multicast]") {
  const ScenarioResult early = run_scenario("multimem_before_all_are_bound", with_switches);
  REQUIRE(early.signal == SIGABRT);
  REQUIRE(early.says("not all GPUs of the multicast object have bound memory"));
  REQUIRE(run_scenario("plain_load_of_multicast", with_switches).signal == SIGSEGV);
  const ScenarioResult ordinary = run_scenario("multimem_of_ordinary_memory");
  REQUIRE(ordinary.signal == SIGABRT);
  REQUIRE(ordinary.says("not of a multicast object"));
}
