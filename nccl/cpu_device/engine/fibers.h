// Fibers: the context switch and the stacks under CUDA threads.
//
// Contract
//   A stack has an inaccessible page below it, so that an overflow ends the process instead of corrupting a neighbour.
//   Memory is reserved, not used: a thread costs what it touches. Fibers never move to another OS thread.
#pragma once

#include <cstddef>
#include <vector>

#include "nccl/cpu_device/engine/engine.h"

namespace ccld::cpu_device {

// Fiber::state; a value >= 0 is the barrier the fiber waits at.
constexpr int fiber_ready = -1;  // running, or in the ready queue
constexpr int fiber_in_exchange = -2;
constexpr int fiber_finished = -3;

// Saves the running context in *save and continues the one in `load`.
extern "C" void ccld_cpu_device_switch(void** save, void* load) __attribute__((visibility("hidden")));

// The stack pointer of a context that will call `entry` on the given stack; `entry` must not return.
void* prepare_context(char* stack_end, void (*entry)());

// The stacks of one block.
class StackPool {
 public:
  explicit StackPool(size_t stack_bytes) : stack_bytes_(stack_bytes) {}

  // Makes sure that stacks 0 .. count-1 exist.
  void reserve(unsigned count);
  // One past the highest byte of a stack.
  char* end_of(unsigned index) const { return ends_[index]; }

 private:
  size_t stack_bytes_;
  std::vector<char*> ends_;
};

}  // namespace ccld::cpu_device
