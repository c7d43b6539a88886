#include "nccl/cpu_device/cuda/memory_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "nccl/cpu_device/cuda/device.h"

namespace ccld::cpu_device {
namespace {

constexpr char on_device = 'd';
constexpr char on_host = 'h';

}  // namespace

std::string name_of_open_file(int file) {
  char path[64], name[128];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(path, name, sizeof name);
  return length <= 0 ? std::string() : std::string(name, static_cast<size_t>(length));
}

int create_memory_file(const CUmemAllocationProp& properties, size_t bytes) {
  const bool is_device = properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  char name[32];
  snprintf(name, sizeof name, "ccld-vmm-%c%d", is_device ? on_device : on_host,
           is_device ? physical_index(properties.location.id) : 0);
  const int file = memfd_create(name, MFD_CLOEXEC);
  if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return -1;
  }
  return file;
}

bool read_memory_location(int file, CUmemAllocationProp* properties) {
  char where;
  int index;
  if (sscanf(name_of_open_file(file).c_str(), "/memfd:ccld-vmm-%c%d", &where, &index) != 2) return false;
  properties->location.type = where == on_device ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  properties->location.id = 0;
  for (int i = 0; where == on_device && i < visible_device_count(); ++i) {
    if (physical_index(i) == index) properties->location.id = i;
  }
  return true;
}

}  // namespace ccld::cpu_device
