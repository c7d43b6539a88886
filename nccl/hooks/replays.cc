#include "nccl/hooks/replays.h"

#include <mutex>

#include "alloc.h"
#include "comm.h"
#include "debug.h"
#include "nccl/hooks/own_log.h"
#include "schemas/abi/frame.h"

namespace ccld::hooks {

uint32_t* make_replay_counters(ncclComm* comm) {
  uint32_t* counters = nullptr;
  ncclResult_t result = ncclSuccess;
  // Without them the communicator works all the same: no warning of NCCL's, and not the last error.
  NOWARN(result = ncclCudaCalloc(&counters, abi::replay_slots_max, comm->memManager), NCCL_ALLOC);
  if (result != ncclSuccess) {
    static std::once_flag said;
    std::call_once(said,
                   [] { warn("replays of CUDA graphs are not numbered: the GPU has no memory for their counters"); });
    return nullptr;
  }
  ncclCommPushCudaFree(comm, counters);
  return counters;
}

}  // namespace ccld::hooks
