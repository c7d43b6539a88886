#include "nccl/cpu_device/cuda/device_heap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "nccl/cpu_device/base/diagnostics.h"

namespace ccld::cpu_device {
namespace {

constexpr size_t page_bytes = 4096;
constexpr size_t guard_bytes = page_bytes;

size_t round_to_pages(size_t bytes) { return (bytes + page_bytes - 1) & ~(page_bytes - 1); }

}  // namespace

DeviceHeap::DeviceHeap(int physical_device, uint64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes), file_bytes_(2 * capacity_bytes) {
  file_ = memfd_create(device_heap_file_name, MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(file_bytes_)) != 0) {
    fatal("cannot create the memory of GPU %d: %s", physical_device, strerror(errno));
  }
  void* base = mmap(nullptr, file_bytes_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  if (base == MAP_FAILED) {
    fatal("cannot map the memory of GPU %d (%llu MiB, see CCLD_CPU_DEVICE_MEMORY_MIB): %s", physical_device,
          static_cast<unsigned long long>(capacity_bytes >> 20), strerror(errno));
  }
  base_ = static_cast<char*>(base);
  gaps_[0] = file_bytes_;
}

char* DeviceHeap::allocate(size_t bytes) {
  const size_t usable = round_to_pages(bytes);
  const size_t taken = usable + guard_bytes;
  std::lock_guard<std::mutex> lock(mutex_);
  if (used_bytes_ + usable > capacity_bytes_) return nullptr;
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    const auto [offset, length] = *gap;
    if (length < taken) continue;
    if (mprotect(base_ + offset, usable, PROT_READ | PROT_WRITE) != 0) return nullptr;
    gaps_.erase(gap);
    if (length > taken) gaps_[offset + taken] = length - taken;
    used_bytes_ += usable;
    return base_ + offset;
  }
  return nullptr;
}

void DeviceHeap::free(char* begin, size_t bytes) {
  const size_t usable = round_to_pages(bytes);
  uint64_t offset = offset_of(begin);
  uint64_t length = usable + guard_bytes;
  std::lock_guard<std::mutex> lock(mutex_);
  mprotect(begin, usable, PROT_NONE);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(usable));
  used_bytes_ -= usable;
  auto next = gaps_.lower_bound(offset);
  if (next != gaps_.end() && offset + length == next->first) {
    length += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += length;
      return;
    }
  }
  gaps_[offset] = length;
}

bool DeviceHeap::reserve_elsewhere(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (used_bytes_ + bytes > capacity_bytes_) return false;
  used_bytes_ += bytes;
  return true;
}

void DeviceHeap::release_elsewhere(size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_bytes_ -= bytes;
}

uint64_t DeviceHeap::free_bytes() {
  std::lock_guard<std::mutex> lock(mutex_);
  return capacity_bytes_ - used_bytes_;
}

}  // namespace ccld::cpu_device
