// Counts what this program's libraries register with CUDA, give back and allocate, between them and the CPU device.
#pragma once

namespace ccld::lifecycle_test {

struct Registrations {
  int taken = 0;        // memory of the size of frames: cudaHostRegister
  int given_back = 0;   // cudaHostUnregister of it
  int allocations = 0;  // cudaMalloc
};

// Of all threads, at this moment.
Registrations registrations();

// From now on cudaHostRegister answers cudaErrorNotSupported.
void refuse_registrations();

}  // namespace ccld::lifecycle_test
