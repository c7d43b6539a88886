// Whether the training path records: an operator may stop the probe of a running job and let it go on again.
//
// Contract
//   While it is stopped, calls are numbered (so that ranks agree afterwards) and counted as unseen, and kernels get no
//   token and behave as if there were no frame. Kernels that were recorded into a CUDA graph before keep their token and go
//   on writing.
//
// Threads: any.
#pragma once

#include <atomic>

namespace ccld::probe {

namespace internal {
inline std::atomic<bool> recording_flag{true};
}

inline bool recording() { return internal::recording_flag.load(std::memory_order_relaxed); }
inline void set_recording(bool on) { internal::recording_flag.store(on, std::memory_order_relaxed); }

}  // namespace ccld::probe
