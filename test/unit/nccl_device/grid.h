// Runs a lambda as a kernel of one block, so that tests can use what only CUDA threads may call.
#pragma once

#include <functional>

#include "nccl/cpu_device/device/kernel_registration.h"
#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

inline void run_body(const std::function<void()>* body) { (*body)(); }

inline void run_block(unsigned threads, const std::function<void()>& body) {
  const void* function = kernel(&run_body);
  const std::function<void()>* argument = &body;
  run_grid(function, *find_kernel(function), &argument, LaunchShape{{1, 1, 1}, {threads, 1, 1}}, 0);
}

}  // namespace ccld::cpu_device
