// Where upstream's shared-memory objects live on the CPU device.
//
// `extern __shared__ ncclShmemData ncclShmem;` in upstream's code declares, through the two macros below, a
// thread-local pointer; the engine's hook in nccl_glue.cc sets it in each block's OS thread. Initial-exec: two pointers
// fit the static TLS that the loader keeps free for libraries opened with dlopen().
#pragma once

#undef __shared__
#define __shared__ __attribute__((tls_model("initial-exec"))) __thread

#define ncclShmem (*ccld_nccl_shared_data)
#define ncclShmemPerWarp (*ccld_nccl_warp_scratch)

// Ends the process with the name of the device function that this build leaves out.
[[noreturn]] void ccld_trap_missing_function(int function_id);
