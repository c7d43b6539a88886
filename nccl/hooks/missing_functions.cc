// What a build that leaves device functions out does about it: they are not chosen where there is another way, and a
// choice that the user forced is refused by name. Upstream would launch a kernel that does nothing in their place.
#include "ccld_hooks.h"
#include "comm.h"
#include "debug.h"
#include "device.h"

// Made by nccl/functions.
extern const int ccld_first_missing_function;
extern const char* const ccld_missing_functions[];
extern const bool ccld_symmetric_kernels_built;

namespace {

constexpr int algorithms = NCCL_NUM_ALGORITHMS, protocols = NCCL_NUM_PROTOCOLS;

}  // namespace

ncclResult_t ccld_function_chosen(int function_id) {
  if (function_id < ccld_first_missing_function) return ncclSuccess;
  WARN(
      "This build of NCCL leaves '%s' out: choose another algorithm or protocol (NCCL_ALGO, NCCL_PROTO; "
      "NCCL_PAT_ENABLE=0), or "
      "build it in (CMake variable CCLD_NCCL_ONLY_FUNCS, or all functions: make nccl FULL=1)",
      ccld_missing_functions[function_id - ccld_first_missing_function]);
  return ncclInvalidUsage;
}

bool ccld_function_is_built(const struct ncclTaskColl* task, int algorithm, int protocol) {
  return ncclDevFuncId(task->func, task->opDev.op, task->datatype, algorithm, protocol) < ccld_first_missing_function;
}

void ccld_costs_known(const struct ncclTaskColl* task, float* costs) {
  bool missing[algorithms * protocols] = {};
  bool another_way = false;
  for (int i = 0; i < algorithms * protocols; ++i) {
    if (costs[i] < 0) continue;
    missing[i] = !ccld_function_is_built(task, i / protocols, i % protocols);
    another_way |= !missing[i];
  }
  if (!another_way) return;
  for (int i = 0; i < algorithms * protocols; ++i)
    if (missing[i]) costs[i] = NCCL_ALGO_PROTO_IGNORE;
}

bool ccld_symmetric_kernels_are_built() { return ccld_symmetric_kernels_built; }
