#include "benchmarks/gpu/registration.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "schemas/abi/frame.h"

namespace ccld::gpu {
namespace {

constexpr int written = 0x5a;
constexpr unsigned portable_and_mapped = cudaHostRegisterPortable | cudaHostRegisterMapped;

size_t frame_size() {
  constexpr size_t page = 4096;
  return (abi::frame_bytes(abi::channels_max) + page - 1) / page * page;
}

double us_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

// Whether it went well.
bool took(cudaError_t error, const char* what, MemoryWay* way) {
  if (error == cudaSuccess) return true;
  way->refusal = std::string(what) + ": " + cudaGetErrorString(error);
  (void)cudaGetLastError();
  return false;
}

bool device_writes(void* memory, MemoryWay* way) {
  void* address = nullptr;
  return took(cudaHostGetDevicePointer(&address, memory, 0), "cudaHostGetDevicePointer", way) &&
         took(cudaMemset(address, written, frame_size()), "cudaMemset", way) &&
         took(cudaDeviceSynchronize(), "cudaDeviceSynchronize", way);
}

bool is_written(const std::vector<char>& seen) {
  return std::all_of(seen.begin(), seen.end(), [](char byte) { return byte == written; });
}

bool is_in_memory(const void* memory) {
  const auto* bytes = static_cast<const char*>(memory);
  return is_written({bytes, bytes + frame_size()});
}

bool is_in_file(int file) {
  std::vector<char> seen(frame_size());
  return pread(file, seen.data(), seen.size(), 0) == static_cast<ssize_t>(seen.size()) && is_written(seen);
}

// `file`: -1 for memory without one.
void try_registered(int file, MemoryWay* way) {
  void* memory =
      mmap(nullptr, frame_size(), PROT_READ | PROT_WRITE, file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    way->refusal = std::string("mmap: ") + strerror(errno);
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  if (took(cudaHostRegister(memory, frame_size(), portable_and_mapped), "cudaHostRegister", way)) {
    way->taken_us = us_since(begin);
    if (device_writes(memory, way)) {
      way->works = file < 0 ? is_in_memory(memory) : is_in_file(file);
      if (!way->works) way->refusal = "what the device wrote is not there";
    }
    const auto end = std::chrono::steady_clock::now();
    if (!took(cudaHostUnregister(memory), "cudaHostUnregister", way)) way->works = false;
    way->given_back_us = us_since(end);
  }
  munmap(memory, frame_size());
}

MemoryWay try_file(const std::string& folder) {
  MemoryWay way{"registered file", false, "", 0, 0};
  std::string path = folder + "/ccld-registration-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(frame_size())) != 0) {
    way.refusal = path + ": " + strerror(errno);
  } else {
    try_registered(file, &way);
  }
  if (file >= 0) {
    unlink(path.c_str());
    close(file);
  }
  return way;
}

MemoryWay try_anonymous() {
  MemoryWay way{"registered memory", false, "", 0, 0};
  try_registered(-1, &way);
  return way;
}

MemoryWay try_allocated() {
  MemoryWay way{"CUDA's memory", false, "", 0, 0};
  void* memory = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  if (!took(cudaHostAlloc(&memory, frame_size(), cudaHostAllocPortable | cudaHostAllocMapped), "cudaHostAlloc", &way)) {
    return way;
  }
  way.taken_us = us_since(begin);
  if (device_writes(memory, &way)) way.works = is_in_memory(memory);
  const auto end = std::chrono::steady_clock::now();
  if (!took(cudaFreeHost(memory), "cudaFreeHost", &way)) way.works = false;
  way.given_back_us = us_since(end);
  return way;
}

}  // namespace

std::vector<MemoryWay> try_memory(const std::string& folder) {
  return {try_file(folder), try_anonymous(), try_allocated()};
}

}  // namespace ccld::gpu
