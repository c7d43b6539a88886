// What a build that leaves device functions out says when NCCL chooses one of them. Upstream would launch a kernel that
// does nothing in its place.
#include "ccld_hooks.h"
#include "debug.h"

// Made by nccl/functions.
extern const int ccld_first_missing_function;
extern const char* const ccld_missing_functions[];
extern const bool ccld_symmetric_kernels_built;

ncclResult_t ccld_function_chosen(int function_id) {
  if (function_id < ccld_first_missing_function) return ncclSuccess;
  WARN(
      "This build of NCCL leaves '%s' out: choose another algorithm or protocol (NCCL_ALGO, NCCL_PROTO; "
      "NCCL_PAT_ENABLE=0), or "
      "build it in (CMake variable CCLD_NCCL_ONLY_FUNCS, or all functions: make nccl FULL=1)",
      ccld_missing_functions[function_id - ccld_first_missing_function]);
  return ncclInvalidUsage;
}

bool ccld_symmetric_kernels_are_built() { return ccld_symmetric_kernels_built; }
