// Which driver a library needs that was built with a CUDA toolkit.
//
// Contract
//   Versions as CUDA gives them: 1000 * major + 10 * minor. Within a major version any driver of that version runs what
//   any toolkit of it has built (CUDA's minor version compatibility), but for PTX, which needs a driver as new as the
//   toolkit.
#pragma once

#include <cstdint>

namespace ccld::abi {

constexpr uint32_t cuda_major(uint32_t cuda_version) { return cuda_version / 1000; }
constexpr uint32_t cuda_minor(uint32_t cuda_version) { return cuda_version % 1000 / 10; }

// The oldest driver, as `nvidia-smi` names it; nullptr: not known.
constexpr const char* driver_needed(uint32_t cuda_version) {
  switch (cuda_major(cuda_version)) {
    case 12: return "525.60.13";
    case 13: return "580.65.06";
    default: return nullptr;
  }
}

// Whether a driver, by the newest CUDA version that it supports, is known to be too old.
constexpr bool driver_too_old(uint32_t cuda_version, uint32_t driver_cuda_version) {
  return driver_cuda_version != 0 && cuda_major(driver_cuda_version) < cuda_major(cuda_version);
}

}  // namespace ccld::abi
