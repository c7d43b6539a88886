// The execution engine of the CPU device: runs CUDA kernels that were compiled as plain C++.
//
// Contract
//   A CUDA thread is a fiber, a CUDA block is one OS thread that switches between its fibers, and all blocks of a
//   launch are resident at once (NCCL's channels wait for each other). Device code calls the "device side" functions;
//   the CUDA runtime of the CPU device (nccl/cpu_device/cuda) calls the "host side" ones.
//
// Errors
//   What a GPU would answer with an error at run time (an unsupported instruction, a kernel nobody registered, a
//   barrier that can never complete) ends the process with one line on stderr that starts with "ccld-cpu-device:".
//   The engine never goes on with wrong data.
//
// Threads
//   Device-side functions may only be called from a fiber. Host-side functions are safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccld::cpu_device {
struct Block;
}

// The engine lives in the CPU device's library; device code in another one (libnccl) finds it there, also when both
// are compiled with hidden visibility.
#pragma GCC visibility push(default)

namespace ccld::cpu_device {

constexpr unsigned warp_size = 32;

struct Dim3 {
  unsigned x, y, z;
};

struct LaunchShape {
  Dim3 grid;
  Dim3 block;
};

// Of one loop that polls.
struct PollWait {
  bool known;
  uint32_t warp_shown_at, lane_shown_at;
};

// One CUDA thread. Device code reads the identity fields; everything else belongs to the engine.
struct Fiber {
  void* stack_pointer;
  Dim3 thread_index;
  unsigned linear_index;  // within the block
  unsigned lane;          // 0..31
  unsigned warp;
  Block* block;
  Fiber* next_ready;
  int state;       // a fiber_* constant of fibers.h, or the barrier it waits at
  unsigned vote;   // the result of the last reducing barrier
  int poll_spins;  // the last count given to poll_again()
  int poll_spins_max;
  PollWait poll_wait;
};

// The values that the lanes of one warp-level operation exchanged (shuffles, votes, matches).
struct Rendezvous {
  uint32_t mask;
  uint32_t arrived;
  int readers_left;  // 0: the record is free
  bool complete;
  uint64_t value[warp_size];
};

// Identity of the running CUDA thread; initial-exec so that a dlopen'ed libnccl finds them without a call.
#define CCLD_DEVICE_TLS __thread __attribute__((tls_model("initial-exec")))
extern CCLD_DEVICE_TLS Fiber* current_fiber;
extern CCLD_DEVICE_TLS LaunchShape current_shape;
extern CCLD_DEVICE_TLS Dim3 current_block_index;

// ---- device side -----------------------------------------------------------------------------------------------

// bar.sync: waits until `count` threads (0: the whole block) arrived at barrier `id` (0..15).
void barrier(int id, int count);
// bar.red.or: the same, and returns whether any arriving thread voted non-zero.
unsigned barrier_or(int id, int count, unsigned vote);

// Exchanges `value` with the lanes of `mask` (lanes that already returned are left out). The record stays valid until
// release_rendezvous(). Lanes resume in ascending order: LL128 relies on it.
Rendezvous* warp_exchange(uint32_t mask, uint64_t value);
void release_rendezvous(Rendezvous*);

// Called wherever device code polls: lets the other fibers of the block run, and the processor rest when all poll.
void poll_yield();
// Yields like poll_yield(), and returns true while a polling loop should go on without looking at its abort flag.
// `spins` counts the polls of this loop since it began or last looked.
bool poll_again(int spins);
// What device code keeps about the loop in which the running thread polls. Emptied by poll_again() when it is told of a
// new loop.
inline PollWait& poll_wait() { return current_fiber->poll_wait; }

[[noreturn]] void trap(const char* what);

// %globaltimer: nanoseconds, the same clock for all processes of the machine, never slowed.
uint64_t global_timer_ns();

// ---- host side -------------------------------------------------------------------------------------------------

using Invoker = void (*)(const void* function, const void* arguments);

struct KernelInfo {
  Invoker invoke;
  size_t argument_bytes;
  size_t static_shared_bytes;
  const char* name;
  size_t argument_count;
  const size_t* argument_sizes;
  const size_t* argument_offsets;
};

// Registering a function again changes nothing.
void register_kernel(const void* function, const KernelInfo&);
// nullptr when nobody registered `function`.
const KernelInfo* find_kernel(const void* function);

// Runs in each block's OS thread before its fibers start: hands device code its shared memory (below 4 GiB, so that
// 32-bit shared addresses are truncated pointers).
using SharedMemoryHook = void (*)(void* static_shared, void* dynamic_shared);
void add_shared_memory_hook(SharedMemoryHook);

// Runs a whole grid; returns when all blocks are done.
void run_grid(const void* function, const KernelInfo&, const void* arguments, LaunchShape, size_t dynamic_shared_bytes);

}  // namespace ccld::cpu_device

#pragma GCC visibility pop
