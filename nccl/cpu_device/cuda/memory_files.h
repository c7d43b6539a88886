// Files without a path that carry memory between processes. Only their descriptors travel: an importer knows what it
// has got by the name under which the kernel lists the file.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

namespace ccld::cpu_device {

// As the kernel lists it, "/memfd:..."; empty when the descriptor is none.
std::string name_of_open_file(int file);

// For memory of cuMemCreate(): a file whose name says where the memory is. -1 when the system refuses.
int create_memory_file(const CUmemAllocationProp& properties, size_t bytes);
// Where the memory of such a file is; false when the file is none.
bool read_memory_location(int file, CUmemAllocationProp* properties);

}  // namespace ccld::cpu_device
