// The memory of one pretended GPU: a sparse file without a name, handed out in page-sized pieces.
//
// Contract
//   Other processes map pieces of it through /proc/<pid>/fd/<file> (cudaIpc). Freed pieces give their pages back and
//   become inaccessible, and an inaccessible page follows each piece: use after free and overruns end the process
//   instead of corrupting a neighbour. Nothing survives the process.
//
// Threads: safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace ccld::cpu_device {

class DeviceHeap {
 public:
  DeviceHeap(int physical_device, uint64_t capacity_bytes);

  // nullptr when the device's memory is used up.
  char* allocate(size_t bytes);
  void free(char* begin, size_t bytes);

  int file() const { return file_; }
  uint64_t offset_of(const char* address) const { return static_cast<uint64_t>(address - base_); }

  // Memory that lives elsewhere but counts as this device's (cuMemCreate). False when it would not fit.
  bool reserve_elsewhere(size_t bytes);
  void release_elsewhere(size_t bytes);

  uint64_t capacity_bytes() const { return capacity_bytes_; }
  uint64_t free_bytes();

 private:
  const uint64_t capacity_bytes_;
  uint64_t file_bytes_;  // larger than the capacity: guard pages cost addresses, not memory
  int file_ = -1;
  char* base_ = nullptr;

  std::mutex mutex_;
  std::map<uint64_t, uint64_t> gaps_;  // offset -> bytes
  uint64_t used_bytes_ = 0;
};

// The name under which the kernel lists the file, "/memfd:...": lets an importer check what it opened.
constexpr const char* device_heap_file_name = "ccld-gpu-memory";

}  // namespace ccld::cpu_device
