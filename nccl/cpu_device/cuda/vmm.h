// The virtual memory management part of the driver API (cuMem...), declared here for the table of entry points.
//
// Each physical allocation is a file without a name; exporting one means handing out its descriptor. Only descriptors
// can be exported (no fabric handles). A multicast object is mapped and exported like an allocation.
#pragma once

#include <cuda.h>

#include <cstddef>

#include "nccl/cpu_device/cuda/physical_memory.h"

namespace ccld::cpu_device {

// The memory behind all of [address, address + bytes), and where in it the range begins; nullptr if cuMemMap() mapped
// no memory that holds it.
PhysicalPtr find_mapped(CUdeviceptr address, size_t bytes, size_t* offset);

}  // namespace ccld::cpu_device
