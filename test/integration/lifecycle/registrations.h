// Counts what this program's libraries register with CUDA and give back, between them and the CPU device.
#pragma once

#include <cstddef>

namespace ccld::lifecycle_test {

struct Registrations {
  int taken = 0;       // memory of the size of frames: cudaHostRegister
  int given_back = 0;  // cudaHostUnregister of it
};

// Of all threads, at this moment.
Registrations registrations();

// From now on cudaHostRegister answers cudaErrorNotSupported.
void refuse_registrations();

// From now on cudaMalloc of exactly so much answers cudaErrorMemoryAllocation.
void refuse_allocations_of(size_t bytes);

}  // namespace ccld::lifecycle_test
