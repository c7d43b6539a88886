#include <cuda.h>
#include <cuda_runtime_api.h>
#include <catch2/catch.hpp>

namespace {

template <class Function>
Function entry_point(const char* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result) == cudaSuccess);
  REQUIRE(result == cudaDriverEntryPointSuccess);
  return reinterpret_cast<Function>(function);
}

}  // namespace

TEST_CASE("Driver functions are found by name and work", "[driver]") {
  const auto get_count = entry_point<CUresult (*)(int*)>("cuDeviceGetCount");
  int count = 0;
  REQUIRE(get_count(&count) == CUDA_SUCCESS);
  REQUIRE(count == 8);
}

TEST_CASE("A driver function that is missing is not found, so that callers do without", "[driver]") {
  void* function = &function;
  cudaDriverEntryPointQueryResult result;
  REQUIRE(cudaGetDriverEntryPointByVersion("cuMemGetHandleForAddressRange", &function, 12010, cudaEnableDefault, &result) ==
          cudaSuccess);
  REQUIRE(result == cudaDriverEntryPointSymbolNotFound);
  REQUIRE(function == nullptr);
}

TEST_CASE("The current context is the runtime's current device", "[driver]") {
  CUcontext third, first;
  CUdevice device;
  REQUIRE(cudaSetDevice(3) == cudaSuccess);
  REQUIRE(cuCtxGetCurrent(&third) == CUDA_SUCCESS);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  REQUIRE(cuCtxGetCurrent(&first) == CUDA_SUCCESS);
  REQUIRE(first != third);
  REQUIRE(cuCtxSetCurrent(third) == CUDA_SUCCESS);
  REQUIRE(cuCtxGetDevice(&device) == CUDA_SUCCESS);
  REQUIRE(device == 3);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("The driver knows the range and kind of an address", "[driver]") {
  void *device_memory, *pinned;
  REQUIRE(cudaMalloc(&device_memory, 10000) == cudaSuccess);
  REQUIRE(cudaMallocHost(&pinned, 100) == cudaSuccess);
  CUdeviceptr begin;
  size_t bytes;
  const auto address = reinterpret_cast<CUdeviceptr>(device_memory);
  REQUIRE(cuMemGetAddressRange(&begin, &bytes, address + 5000) == CUDA_SUCCESS);
  REQUIRE(begin == address);
  REQUIRE(bytes == 10000);
  REQUIRE(cuMemGetAddressRange(&begin, &bytes, address + 10000) == CUDA_ERROR_NOT_FOUND);
  unsigned type = 0;
  REQUIRE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS);
  REQUIRE(type == CU_MEMORYTYPE_DEVICE);
  REQUIRE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(pinned)) ==
          CUDA_SUCCESS);
  REQUIRE(type == CU_MEMORYTYPE_HOST);
  cudaFree(device_memory);
  cudaFreeHost(pinned);
}

TEST_CASE("A stream stores a value in its turn", "[driver]") {
  const auto write = entry_point<CUresult (*)(CUstream, CUdeviceptr, cuuint32_t, unsigned)>("cuStreamWriteValue32");
  uint32_t* words;
  REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&words), 2 * sizeof(*words)) == cudaSuccess);
  words[0] = words[1] = 0;
  cudaStream_t stream;
  REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
  struct Seen {
    uint32_t* words;
    uint32_t first, second;
  } seen{words, 0, 0};
  const auto look = [](void* data) {
    auto* seen = static_cast<Seen*>(data);
    seen->first = seen->words[0];
    seen->second = seen->words[1];
  };
  REQUIRE(write(stream, reinterpret_cast<CUdeviceptr>(words), 7, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(cudaLaunchHostFunc(stream, look, &seen) == cudaSuccess);
  REQUIRE(write(stream, reinterpret_cast<CUdeviceptr>(words + 1), 8, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_SUCCESS);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  REQUIRE(seen.first == 7);
  REQUIRE(seen.second == 0);
  REQUIRE(words[1] == 8);
  REQUIRE(write(stream, 0, 1, CU_STREAM_WRITE_VALUE_DEFAULT) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cudaStreamDestroy(stream) == cudaSuccess);
  REQUIRE(cudaFreeHost(words) == cudaSuccess);
}
