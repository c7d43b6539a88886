#include "nccl/hooks/replays.h"

#include "alloc.h"
#include "comm.h"
#include "schemas/abi/frame.h"

namespace ccld::hooks {

uint32_t* make_replay_counters(ncclComm* comm) {
  uint32_t* counters = nullptr;
  if (ncclCudaCalloc(&counters, abi::replay_slots_max, comm->memManager) != ncclSuccess) return nullptr;
  ncclCommPushCudaFree(comm, counters);
  return counters;
}

}  // namespace ccld::hooks
