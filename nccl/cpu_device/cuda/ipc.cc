// cudaIpc: device memory of another process, mapped through its open file under /proc.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/cuda/device.h"
#include "nccl/cpu_device/cuda/errors.h"
#include "nccl/cpu_device/cuda/memory.h"

namespace ccld::cpu_device {
namespace {

constexpr uint64_t handle_magic = 0x31637069646c6363;  // "ccldipc1", little endian

struct IpcHandle {
  uint64_t magic;
  uint64_t offset;
  uint64_t bytes;
  int32_t pid;
  int32_t file;
  int32_t physical_device;
};
static_assert(sizeof(IpcHandle) <= sizeof(cudaIpcMemHandle_t));

// A process id may have been reused: the file must be a device heap.
bool is_device_heap(const char* path) {
  char name[128];
  const ssize_t length = readlink(path, name, sizeof name - 1);
  if (length <= 0) return false;
  name[length] = '\0';
  return strstr(name, device_heap_file_name) != nullptr;
}

int visible_index_of(int physical) {
  for (int i = 0; i < visible_device_count(); ++i) {
    if (physical_index(i) == physical) return i;
  }
  return current_device();  // a GPU that CUDA_VISIBLE_DEVICES hides
}

cudaError_t open_handle(const IpcHandle& handle, void** address) {
  if (handle.magic != handle_magic) return cudaErrorInvalidValue;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.file);
  if (!is_device_heap(path)) return cudaErrorMapBufferObjectFailed;
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return cudaErrorMapBufferObjectFailed;
  void* begin =
      mmap(nullptr, handle.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(handle.offset));
  close(file);  // the mapping keeps the memory alive
  if (begin == MAP_FAILED) return cudaErrorMapBufferObjectFailed;
  add_allocation(
      {static_cast<char*>(begin), handle.bytes, MemoryKind::imported, visible_index_of(handle.physical_device), false});
  *address = begin;
  return cudaSuccess;
}

}  // namespace
}  // namespace ccld::cpu_device

using namespace ccld::cpu_device;

CCLD_CUDA_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* address) {
  const auto allocation = find_allocation(address);
  if (!allocation.has_value() || allocation->kind != MemoryKind::device) return remember(cudaErrorInvalidValue);
  const DeviceHeap& heap = device_heap(allocation->device);
  const IpcHandle mine{handle_magic, heap.offset_of(allocation->begin), allocation->bytes, getpid(),
                       heap.file(),  physical_index(allocation->device)};
  memset(handle, 0, sizeof *handle);
  memcpy(handle, &mine, sizeof mine);
  return cudaSuccess;
}

CCLD_CUDA_API cudaError_t cudaIpcOpenMemHandle(void** address, cudaIpcMemHandle_t handle, unsigned) {
  IpcHandle theirs;
  memcpy(&theirs, &handle, sizeof theirs);
  return remember(open_handle(theirs, address));
}

CCLD_CUDA_API cudaError_t cudaIpcCloseMemHandle(void* address) {
  const auto allocation = remove_allocation(address, MemoryKind::imported);
  if (!allocation.has_value()) return remember(cudaErrorInvalidValue);
  munmap(allocation->begin, allocation->bytes);
  return cudaSuccess;
}
