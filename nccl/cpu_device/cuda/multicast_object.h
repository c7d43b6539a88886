// A multicast object: GPUs that each bind memory of their own, so that one address stands for all of it.
//
// Contract
//   The object is a file without a name that all its processes map; its descriptor is what travels. It says which GPUs
//   take part and which memory each has bound. Memory itself stays where it is: others map it through /proc/<pid>/fd of
//   the process that bound it, when a view needs it first, and it is there as long as that process has it bound. A
//   driver waits in bind() until all GPUs were added; here it is an error to be earlier than that.
//
// Threads: safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "nccl/cpu_device/engine/multicast.h"

namespace ccld::cpu_device {

enum class MulticastError { none, invalid, not_ready, exhausted };

class MulticastObject {
 public:
  // nullptr when the system has no file for it.
  static std::unique_ptr<MulticastObject> create(unsigned device_count, size_t bytes);
  // One that another part of this or another process created; nullptr when `file` is none. Leaves `file` open.
  static std::unique_ptr<MulticastObject> open(int file);
  // Takes back what was bound through this object.
  ~MulticastObject();
  MulticastObject(const MulticastObject&) = delete;

  int file() const { return file_; }
  size_t bytes() const;

  // Devices are physical indices.
  MulticastError add_device(int device);
  // `memory` is a file of this process; `owner` keeps it open.
  MulticastError bind(int device, size_t offset, int memory, size_t memory_offset, size_t bytes,
                      std::shared_ptr<void> owner);
  MulticastError unbind(int device, size_t offset, size_t bytes);

  // What is behind `address` where the object is mapped from `begin` on; see MulticastResolver.
  const char* resolve(uint64_t begin, uint64_t address, MulticastView*);

 private:
  struct Shared;
  struct Binding;
  // A binding's memory, mapped here.
  struct Mapped {
    uint32_t use;
    char* begin;
    size_t bytes;
  };

  MulticastObject(int file, Shared* shared) : file_(file), shared_(shared) {}
  char* map(int slot, uint32_t use, const Binding&);

  const int file_;
  Shared* const shared_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<void>> owners_;  // by slot
  std::multimap<int, Mapped> mapped_;            // by slot
};

}  // namespace ccld::cpu_device
