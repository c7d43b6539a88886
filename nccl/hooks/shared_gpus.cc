// Several ranks on one GPU, for those who have a single one. Off unless asked for: NCCL refuses it then, as it always
// did.
#include "nccl/hooks/shared_gpus_rule.h"

#include <string>

#include "ccld_hooks.h"
#include "comm.h"
#include "debug.h"
#include "nccl/hooks/own_log.h"
#include "param.h"
#include "transport.h"
#include "utils.h"

namespace {

bool read_switch() {
  const char* text = ncclGetEnv(ccld::hooks::share_gpus_variable);
  const std::optional<bool> on = ccld::hooks::parse_share_gpus(text);
  if (!on.has_value()) {
    ccld::hooks::warn(std::string(ccld::hooks::share_gpus_variable) + ": must be 0 or 1, not \"" + text + "\"; it is 0");
    return false;
  }
  if (*on) {
    INFO(NCCL_INIT | NCCL_ENV, "%s: ranks may share a GPU; each process is a machine of its own to NCCL",
         ccld::hooks::share_gpus_variable);
  }
  return *on;
}

}  // namespace

bool ccld_ranks_may_share_gpus() {
  static const bool on = read_switch();
  return on;
}

uint64_t ccld_host_identified(uint64_t host_hash) {
  return ccld_ranks_may_share_gpus() ? ccld::hooks::host_of_process(host_hash, getPidHash()) : host_hash;
}

// Before NCCL's own message, which has to stay the last error that users are shown.
void ccld_duplicate_gpu_found(struct ncclComm* comm, int other_rank) {
  const uint64_t process = comm->peerInfo[comm->rank].pidHash;
  if (!ccld_ranks_may_share_gpus()) {
    WARN(
        "ranks %d and %d have the same GPU: with %s=1 in all processes this NCCL lets ranks of different processes "
        "share one (slowly: to try things out)",
        comm->rank, other_rank, ccld::hooks::share_gpus_variable);
  } else if (comm->peerInfo[other_rank].pidHash == process) {
    WARN("ranks %d and %d have the same GPU and the same process: %s lets only ranks of different processes share one",
         comm->rank, other_rank, ccld::hooks::share_gpus_variable);
  }
}
