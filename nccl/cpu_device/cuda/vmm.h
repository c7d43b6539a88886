// The virtual memory management part of the driver API (cuMem...), declared here for the table of entry points.
//
// Each physical allocation is a file without a name; exporting one means handing out its descriptor. Only descriptors
// can be exported (no fabric handles).
#pragma once

#include <cuda.h>
