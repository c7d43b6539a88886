// Joins upstream's device code to the engine: registers its kernels, hands each block its shared memory, names the
// functions that this build leaves out. Compiled as device code.
#include <cstdio>

#include "common.h"

extern __shared__ ncclShmemData ncclShmem;  // defined by upstream's common.cu
__shared__ ulong2 ncclShmemPerWarp[];       // the macro makes this the definition of a pointer

extern int const ncclDevKernelCount;
extern void* ncclDevKernelList[];
extern const int ccld_first_missing_function;
extern const char* const ccld_missing_functions[];

namespace {

void point_to_shared_memory(void* static_shared, void* dynamic_shared) {
  ccld_nccl_shared_data = static_cast<ncclShmemData*>(static_shared);
  ccld_nccl_warp_scratch = static_cast<ulong2(*)[]>(dynamic_shared);
}

// At load time: NCCL asks for the attributes of its kernels before it launches any.
__attribute__((constructor)) void register_nccl_kernels() {
  using ccld::cpu_device::kernel;
  ccld::cpu_device::add_shared_memory_hook(point_to_shared_memory);
  for (int i = 0; i < ncclDevKernelCount; i++) {
    if (ncclDevKernelList[i] == nullptr) continue;
    kernel(reinterpret_cast<void (*)(ncclDevKernelArgs4K)>(ncclDevKernelList[i]), sizeof(ncclShmemData),
           "ncclDevKernel");
  }
}

}  // namespace

void ccld_trap_missing_function(int function_id) {
  const char* name = function_id >= ccld_first_missing_function
                         ? ccld_missing_functions[function_id - ccld_first_missing_function]
                         : "unknown function";
  static char message[256];
  snprintf(
      message, sizeof message,
      "'%s' is not in this build of NCCL: choose another algorithm or protocol (NCCL_ALGO, NCCL_PROTO%s), or add it to "
      "the CMake variable CCLD_NCCL_ONLY_FUNCS",
      name, strstr(name, "PAT") != nullptr ? ", NCCL_PAT_ENABLE=0" : "");
  ccld::cpu_device::trap(message);
}
