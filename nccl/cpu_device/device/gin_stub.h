// Stands in for upstream's ncclGin (GPU-initiated networking), which exists only under nvcc.
#pragma once

#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

struct GinStub {
  template <class... A>
  explicit GinStub(A&&...) {
    trap("GPU-initiated networking is not supported on the CPU device");
  }
  template <class A>
  void resetSignal(A) {}
  template <class A>
  void resetCounter(A) {}
};

}  // namespace ccld::cpu_device
