#include "nccl/cpu_device/cuda/multicast_object.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "nccl/cpu_device/cuda/memory_files.h"

namespace ccld::cpu_device {
namespace {

// The file's name is what tells an importer that it is a multicast object.
constexpr const char* file_name = "ccld-multicast";
constexpr uint32_t magic = 0x63764e31;
constexpr int max_bindings = 256;

enum State : uint32_t { free_slot, being_written, bound };

}  // namespace

struct MulticastObject::Binding {
  std::atomic<uint32_t> state;
  uint32_t use;  // counts the bindings of this slot
  int32_t device;
  int32_t pid;
  int32_t file;
  uint64_t offset;  // in the object
  uint64_t memory_offset;
  uint64_t bytes;

  bool overlaps(int other_device, uint64_t begin, uint64_t end) const {
    return device == other_device && begin < offset + bytes && offset < end;
  }
};

// What all processes see. A new file is zeros: no device, no binding.
struct MulticastObject::Shared {
  uint32_t magic;
  uint32_t device_count;
  uint64_t bytes;
  std::atomic<uint64_t> devices;  // a bit for each that was added
  std::atomic<uint32_t> version;  // changes with every binding
  std::atomic<uint64_t> left;     // a bit for each that has taken memory back, and bound none since
  Binding bindings[max_bindings];

  void release(Binding& binding) {
    left |= uint64_t{1} << binding.device;
    binding.state = free_slot;
    ++version;
  }
};

std::unique_ptr<MulticastObject> MulticastObject::create(unsigned device_count, size_t bytes) {
  const int file = memfd_create(file_name, MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) {
    if (file >= 0) close(file);
    return nullptr;
  }
  void* shared = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (shared == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  auto* const fresh = static_cast<Shared*>(shared);
  fresh->magic = magic;
  fresh->device_count = device_count;
  fresh->bytes = bytes;
  return std::unique_ptr<MulticastObject>(new MulticastObject(file, fresh));
}

std::unique_ptr<MulticastObject> MulticastObject::open(int file) {
  struct stat info {};
  // The kernel adds " (deleted)" to the name of a file without a path.
  if (name_of_open_file(file).rfind(std::string("/memfd:") + file_name, 0) != 0 || fstat(file, &info) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(Shared))) {
    return nullptr;
  }
  const int own_file = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (own_file < 0) return nullptr;
  void* shared = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, own_file, 0);
  if (shared == MAP_FAILED || static_cast<Shared*>(shared)->magic != magic) {
    if (shared != MAP_FAILED) munmap(shared, sizeof(Shared));
    close(own_file);
    return nullptr;
  }
  return std::unique_ptr<MulticastObject>(new MulticastObject(own_file, static_cast<Shared*>(shared)));
}

MulticastObject::~MulticastObject() {
  for (const auto& [slot, owner] : owners_) shared_->release(shared_->bindings[slot]);
  for (const auto& [slot, mapped] : mapped_) munmap(mapped.begin, mapped.bytes);
  munmap(shared_, sizeof(Shared));
  close(file_);
}

size_t MulticastObject::bytes() const { return shared_->bytes; }

MulticastError MulticastObject::add_device(int device) {
  if (device < 0 || device >= max_multicast_members) return MulticastError::invalid;
  const uint64_t bit = uint64_t{1} << device;
  uint64_t before = shared_->devices;
  do {
    const auto added = static_cast<unsigned>(__builtin_popcountll(before));
    if ((before & bit) != 0 || added == shared_->device_count) return MulticastError::invalid;
  } while (!shared_->devices.compare_exchange_weak(before, before | bit));
  return MulticastError::none;
}

MulticastError MulticastObject::bind(int device, size_t offset, int memory, size_t memory_offset, size_t bytes,
                                     std::shared_ptr<void> owner) {
  const uint64_t devices = shared_->devices;
  if (device < 0 || device >= max_multicast_members || (devices >> device & 1) == 0) return MulticastError::invalid;
  if (bytes == 0 || offset + bytes > shared_->bytes) return MulticastError::invalid;
  if (static_cast<unsigned>(__builtin_popcountll(devices)) < shared_->device_count) return MulticastError::not_ready;
  std::lock_guard<std::mutex> lock(mutex_);
  for (const Binding& other : shared_->bindings) {
    if (other.state == bound && other.overlaps(device, offset, offset + bytes)) return MulticastError::invalid;
  }
  for (int slot = 0; slot < max_bindings; ++slot) {
    Binding& binding = shared_->bindings[slot];
    uint32_t expected = free_slot;
    if (!binding.state.compare_exchange_strong(expected, being_written)) continue;
    ++binding.use;
    binding.device = device;
    binding.pid = getpid();
    binding.file = memory;
    binding.offset = offset;
    binding.memory_offset = memory_offset;
    binding.bytes = bytes;
    binding.state = bound;
    shared_->left &= ~(uint64_t{1} << device);
    ++shared_->version;
    owners_[slot] = std::move(owner);
    return MulticastError::none;
  }
  return MulticastError::exhausted;
}

MulticastError MulticastObject::unbind(int device, size_t offset, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (int slot = 0; slot < max_bindings; ++slot) {
    Binding& binding = shared_->bindings[slot];
    if (binding.state != bound || binding.device != device || binding.offset != offset || binding.bytes != bytes) {
      continue;
    }
    shared_->release(binding);
    owners_.erase(slot);
    return MulticastError::none;
  }
  return MulticastError::invalid;
}

char* MulticastObject::map(int slot, uint32_t use, const Binding& binding) {
  const auto [first, last] = mapped_.equal_range(slot);
  for (auto known = first; known != last; ++known) {
    if (known->second.use == use) return known->second.begin;
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", binding.pid, binding.file);
  const int memory = ::open(path, O_RDWR | O_CLOEXEC);
  if (memory < 0) return nullptr;
  void* begin = MAP_FAILED;
  // A process id may have been reused.
  CUmemAllocationProp location{};
  if (read_memory_location(memory, &location)) {
    begin = mmap(nullptr, binding.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory,
                 static_cast<off_t>(binding.memory_offset));
  }
  close(memory);  // the mapping keeps the memory alive
  if (begin == MAP_FAILED) return nullptr;
  mapped_.emplace(slot, Mapped{use, static_cast<char*>(begin), binding.bytes});
  return static_cast<char*>(begin);
}

const char* MulticastObject::resolve(uint64_t begin, uint64_t address, MulticastView* view) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t offset = address - begin;
  for (;;) {
    const uint32_t version = shared_->version;
    // Ordered by device: sums of numbers that round have the same result in every process.
    std::map<int, std::pair<char*, uint64_t>> members;  // the memory, and where it begins in the object
    uint64_t first = 0, last = shared_->bytes, missing = shared_->devices;
    bool gone = false;
    for (int slot = 0; slot < max_bindings; ++slot) {
      const Binding& binding = shared_->bindings[slot];
      if (binding.state != bound || offset < binding.offset || offset >= binding.offset + binding.bytes) continue;
      char* memory = map(slot, binding.use, binding);
      gone = gone || memory == nullptr;
      members[binding.device] = {memory, binding.offset};
      missing &= ~(uint64_t{1} << binding.device);
      first = std::max<uint64_t>(first, binding.offset);
      last = std::min<uint64_t>(last, binding.offset + binding.bytes);
    }
    if (shared_->version != version) continue;
    if (gone) return "a process that bound memory to a multicast object has ended";
    // A rank that destroys its communicator may do so before the others have given back their last credits.
    if (members.empty() || (missing & ~shared_->left) != 0 ||
        static_cast<unsigned>(__builtin_popcountll(shared_->devices)) != shared_->device_count) {
      return "a multimem instruction where not all GPUs of the multicast object have bound memory";
    }
    *view = MulticastView{};
    view->begin = begin + first;
    view->end = begin + last;
    view->whole = missing == 0;
    for (const auto& [device, member] : members) {
      view->members[view->member_count++] = member.first + (first - member.second);
    }
    view->version = &shared_->version;
    view->version_seen = version;
    return nullptr;
  }
}

}  // namespace ccld::cpu_device
