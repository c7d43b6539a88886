// Frames in memory that the GPU writes to: pinned, mapped, and given back to CUDA only when that cannot wait for
// anybody.
//
// Contract
//   A frame is a file whose pages are registered with CUDA. Where CUDA refuses that (sandboxed containers, confidential
//   computing, a folder on a disk) it is memory that CUDA gave, without a file; where CUDA refuses that too, the
//   communicator is not watched. Each is said once in the log of the process.
//   CUDA may wait for every kernel of the GPU before it takes pinned memory back, and a kernel of another communicator
//   may wait for this very thread. So the memory of a communicator that has ended serves the next one, and all of it is
//   given back when no communicator is left. A communicator that is not watched is not known to have ended: then
//   nothing is.
//
// Threads: any.
#pragma once

#include "probe/probe.h"

namespace ccld::hooks {

struct GpuFrame {
  probe::Comm* comm = nullptr;
  char* device_address = nullptr;  // of the frame, for the present device
  bool allocated = false;          // by CUDA
};

// False: not watched.
bool make_gpu_frame(const probe::CommSetup&, GpuFrame*);
// After comm_end; no kernel of the communicator runs any more. Frees the Comm.
void retire_gpu_frame(probe::Comm*, bool allocated);
// Likewise, of a communicator that lives on without a frame and has run nothing yet.
void retire_unwatched_gpu_frame(probe::Comm*, bool allocated);

}  // namespace ccld::hooks
