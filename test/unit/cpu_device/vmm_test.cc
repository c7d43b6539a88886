#include "nccl/cpu_device/cuda/vmm.h"

#include <fcntl.h>
#include <unistd.h>

#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "test/unit/cpu_device/scenario.h"

using namespace ccld::cpu_device;

namespace {

constexpr size_t mib = 1 << 20;

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

CUmemAccessDesc read_write(int device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

int* mapped(CUmemGenericAllocationHandle handle, size_t bytes, CUdeviceptr* address) {
  REQUIRE(cuMemAddressReserve(address, bytes, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(*address, bytes, 0, handle, 0) == CUDA_SUCCESS);
  const CUmemAccessDesc access = read_write(0);
  REQUIRE(cuMemSetAccess(*address, bytes, &access, 1) == CUDA_SUCCESS);
  return reinterpret_cast<int*>(*address);
}

}  // namespace

TEST_CASE("One allocation mapped twice is the same memory", "[vmm]") {
  const CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle;
  REQUIRE(cuMemCreate(&handle, 4 * mib, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr a, b;
  int *first = mapped(handle, 4 * mib, &a), *second = mapped(handle, 4 * mib, &b);
  REQUIRE(first != second);
  first[12345] = 77;
  REQUIRE(second[12345] == 77);
  REQUIRE(cuMemUnmap(a, 4 * mib) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(a, 4 * mib) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(second[12345] == 77);  // the mapping keeps it
  REQUIRE(cuMemUnmap(b, 4 * mib) == CUDA_SUCCESS);
  REQUIRE(cuMemAddressFree(b, 4 * mib) == CUDA_SUCCESS);
}

TEST_CASE("A mapped address leads back to its allocation and counts as device memory", "[vmm]") {
  const CUmemAllocationProp properties = on_device(2);
  CUmemGenericAllocationHandle handle, again;
  REQUIRE(cuMemCreate(&handle, 2 * mib, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr address;
  int* memory = mapped(handle, 2 * mib, &address);
  REQUIRE(cuMemRetainAllocationHandle(&again, memory + 100) == CUDA_SUCCESS);
  REQUIRE(again == handle);
  CUmemAllocationProp found;
  REQUIRE(cuMemGetAllocationPropertiesFromHandle(&found, again) == CUDA_SUCCESS);
  REQUIRE(found.location.id == 2);
  cudaPointerAttributes attributes;
  cudaPointerGetAttributes(&attributes, memory);
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(attributes.device == 2);
  CUdeviceptr begin;
  size_t bytes;
  REQUIRE(cuMemGetAddressRange(&begin, &bytes, address + 5000) == CUDA_SUCCESS);
  REQUIRE(begin == address);
  REQUIRE(bytes == 2 * mib);
  REQUIRE(cuMemRelease(again) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
  cuMemUnmap(address, 2 * mib);
  cuMemAddressFree(address, 2 * mib);
}

SCENARIO_PROCESS(import_vmm_memory) {
  // The argument names the parent's descriptor, as one passed over a socket would be.
  const int file = open(scenario_argument().c_str(), O_RDWR);
  CUmemGenericAllocationHandle handle;
  if (cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<uintptr_t>(file)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS) {
    return 1;
  }
  CUmemAllocationProp properties;
  cuMemGetAllocationPropertiesFromHandle(&properties, handle);
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE || properties.location.id != 5) return 2;
  CUdeviceptr address;
  cuMemAddressReserve(&address, 2 * mib, 0, 0, 0);
  cuMemMap(address, 2 * mib, 0, handle, 0);
  const CUmemAccessDesc access = read_write(5);
  cuMemSetAccess(address, 2 * mib, &access, 1);
  int* memory = reinterpret_cast<int*>(address);
  if (memory[3] != 33) return 3;
  memory[4] = 44;
  return 0;
}

TEST_CASE("Another process imports an exported allocation", "[vmm]") {
  const CUmemAllocationProp properties = on_device(5);
  CUmemGenericAllocationHandle handle;
  REQUIRE(cuMemCreate(&handle, 2 * mib, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr address;
  int* memory = mapped(handle, 2 * mib, &address);
  memory[3] = 33;
  int file = -1;
  REQUIRE(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) == CUDA_SUCCESS);
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
  REQUIRE(run_scenario("import_vmm_memory", {}, path).exit_code == 0);
  REQUIRE(memory[4] == 44);
  close(file);
  cuMemUnmap(address, 2 * mib);
  cuMemAddressFree(address, 2 * mib);
  cuMemRelease(handle);
}

TEST_CASE("What a GPU would refuse is refused", "[vmm]") {
  CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  REQUIRE(cuMemCreate(&handle, 4096, &properties, 0) == CUDA_ERROR_INVALID_VALUE);  // granularity
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  REQUIRE(cuMemCreate(&handle, 2 * mib, &properties, 0) == CUDA_ERROR_NOT_SUPPORTED);
  properties = on_device(99);
  REQUIRE(cuMemCreate(&handle, 2 * mib, &properties, 0) == CUDA_ERROR_INVALID_DEVICE);
  properties = on_device(0);
  REQUIRE(cuMemCreate(&handle, 2 * mib, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(0x10000000, 2 * mib, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);  // not reserved
  REQUIRE(cuMemAddressReserve(&address, 2 * mib, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(address, 2 * mib, 2 * mib, handle, 0) == CUDA_ERROR_INVALID_VALUE);  // beyond the allocation
  REQUIRE(cuMemUnmap(address, 2 * mib) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemAddressFree(address, 2 * mib) == CUDA_SUCCESS);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
}

SCENARIO_PROCESS(touch_without_access) {
  const CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  cuMemCreate(&handle, 2 * mib, &properties, 0);
  cuMemAddressReserve(&address, 2 * mib, 0, 0, 0);
  cuMemMap(address, 2 * mib, 0, handle, 0);
  return *reinterpret_cast<volatile int*>(address);
}

TEST_CASE("A mapping is inaccessible until access is set", "[vmm]") {
  REQUIRE(run_scenario("touch_without_access").signal == SIGSEGV);
}
