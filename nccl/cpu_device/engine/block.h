// One CUDA block: its fibers and the scheduler that switches between them.
//
// Contract
//   A block belongs to one OS thread and is reused for many launches. run_block() returns when every fiber returned.
//   Switches happen only at scheduling points: barriers, warp exchanges and polls.
//
// Errors
//   No runnable fiber, a barrier entered with two different counts, or a lane outside its own mask end the process
//   with one line that says where every thread of the block waits.
#pragma once

#include <atomic>
#include <cstdint>

#include "nccl/cpu_device/control/faults.h"
#include "nccl/cpu_device/engine/engine.h"
#include "nccl/cpu_device/engine/fibers.h"
#include "nccl/cpu_device/engine/warp_order.h"

namespace ccld::cpu_device {

constexpr unsigned threads_max = 1024;
constexpr int barriers_max = 16;
// Each lane takes part in one exchange at a time, so there are never more.
constexpr unsigned exchanges_per_warp = warp_size;
// NCCL needs about 60 KiB static and at most 227 KiB dynamic, as on an sm_90 GPU.
constexpr size_t static_shared_bytes_max = 96 << 10;
constexpr size_t dynamic_shared_bytes_max = 256 << 10;

static_assert(threads_max == warps_max * warp_size);

struct Barrier {
  unsigned arrived;
  unsigned expected;
  unsigned votes;
};

struct Warp {
  uint32_t live;    // lanes that have not returned
  uint32_t in_use;  // exchanges that were taken; those with no readers left are free again
  Rendezvous exchanges[exchanges_per_warp];
};

struct ReadyQueue {
  Fiber* head;
  Fiber* tail;
  unsigned length;
};

struct BlockLaunch {
  const void* function;
  const KernelInfo* kernel;
  const void* arguments;
  LaunchShape shape;
  unsigned block_index;  // linear
  uint64_t launch;       // counts the grids of the process
  unsigned gpu;          // whose faults the block suffers
};

struct Block {
  explicit Block(size_t stack_bytes);

  Fiber fibers[threads_max];
  Warp warps[warps_max];
  Barrier barriers[barriers_max];
  ReadyQueue ready;
  BlockLaunch launch;
  unsigned threads;
  unsigned alive;
  void* scheduler_context;  // of run_block()
  StackPool stacks;
  char* shared_memory;  // static part, then dynamic part
  WarpOrder order;
  SlowClock slow_clock;

  // Polls in a row that let nobody get on, and how often that went round all ready fibers.
  unsigned fruitless_polls;
  unsigned idle_rounds;

  // For the watchdog: how many scheduling points were passed; 0 while no kernel runs.
  std::atomic<uint64_t> scheduling_points;
};

void run_block(Block&, const BlockLaunch&);

}  // namespace ccld::cpu_device
