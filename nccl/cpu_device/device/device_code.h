// Comes first in every translation unit of CUDA device code that is compiled as plain C++ for the CPU device
// (-include).
//
// CUDA's own headers are read as host code; only then does the translation unit become device code for sm_90, so that
// upstream takes its Hopper paths without the headers asking for nvcc.
#pragma once

#include <cuda_runtime.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda/atomic>

// The standard library is read as host code too.
#include <algorithm>
#include <atomic>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "nccl/cpu_device/device/atomics.h"
#include "nccl/cpu_device/device/builtins.h"
#include "nccl/cpu_device/device/gin_stub.h"
#include "nccl/cpu_device/device/kernel_registration.h"
#include "nccl/cpu_device/device/min_max.h"
#include "nccl/cpu_device/device/nccl_shared_memory.h"
#include "nccl/cpu_device/device/poll_hook.h"
#include "nccl/cpu_device/device/ptx_execute.h"
#include "nccl/cpu_device/device/warp_ops.h"

#define __CUDA_ARCH__ 900
