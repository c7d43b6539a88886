#include "nccl/cpu_device/engine/block.h"

#include <immintrin.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "nccl/cpu_device/base/clock.h"
#include "nccl/cpu_device/base/diagnostics.h"
#include "nccl/cpu_device/base/settings.h"

namespace ccld::cpu_device {

CCLD_DEVICE_TLS Fiber* current_fiber = nullptr;
CCLD_DEVICE_TLS LaunchShape current_shape;
CCLD_DEVICE_TLS Dim3 current_block_index;

namespace {

// ---- what a stuck block says about itself

std::string describe(const Block& block) {
  char text[160];
  snprintf(text, sizeof text, "kernel %s, block %u: %u of %u threads alive", block.launch.kernel->name,
           block.launch.block_index, block.alive, block.threads);
  std::string result = text;
  for (int id = 0; id < barriers_max; ++id) {
    const Barrier& barrier = block.barriers[id];
    if (barrier.arrived == 0) continue;
    snprintf(text, sizeof text, "; barrier %d: %u of %u", id, barrier.arrived, barrier.expected);
    result += text;
  }
  for (unsigned w = 0; w * warp_size < block.threads; ++w) {
    for (const Rendezvous& exchange : block.warps[w].exchanges) {
      if (exchange.readers_left == 0 || exchange.complete) continue;
      snprintf(text, sizeof text, "; warp %u exchange: lanes 0x%08x of 0x%08x", w, exchange.arrived, exchange.mask);
      result += text;
    }
  }
  return result;
}

// ---- the ready queue

void push_back(Block& block, Fiber* fiber) {
  fiber->state = fiber_ready;
  fiber->next_ready = nullptr;
  if (block.ready.tail != nullptr) {
    block.ready.tail->next_ready = fiber;
  } else {
    block.ready.head = fiber;
  }
  block.ready.tail = fiber;
  ++block.ready.length;
}

void push_front(Block& block, Fiber* fiber) {
  fiber->state = fiber_ready;
  fiber->next_ready = block.ready.head;
  block.ready.head = fiber;
  if (block.ready.tail == nullptr) block.ready.tail = fiber;
  ++block.ready.length;
}

Fiber* pop(Block& block) {
  Fiber* fiber = block.ready.head;
  if (__builtin_expect(fiber == nullptr, 0)) {
    fatal("deadlock: no thread can run (%s)", describe(block).c_str());
  }
  block.ready.head = fiber->next_ready;
  if (block.ready.head == nullptr) block.ready.tail = nullptr;
  --block.ready.length;
  return fiber;
}

// Leaves `self`, which is queued or parked, and runs the next ready fiber; returns when `self` runs again.
void run_next(Block& block, Fiber* self) {
  Fiber* next = pop(block);
  if (next == self) return;
  current_fiber = next;
  ccld_cpu_device_switch(&self->stack_pointer, next->stack_pointer);
}

// ---- scheduling points

void note_progress(Block& block) {
  block.fruitless_polls = 0;
  block.idle_rounds = 0;
}

__attribute__((noinline)) void obey_faults(Block& block) {
  wait_while_block_frozen(block.launch.block_index);
  if (clock_slowdown() > 1.0) block.slow_clock.account();
}

void scheduling_point(Block& block) {
  // Only this thread writes; the watchdog reads.
  block.scheduling_points.store(block.scheduling_points.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (__builtin_expect(faults_planted.load(std::memory_order_relaxed), 0)) obey_faults(block);
}

// Every fiber of the block polls: give the processor away, first politely, then by sleeping. The sleep grows with the
// wait, so that it costs a few percent of it at most, and a job that hangs costs next to nothing.
void rest(Block& block) {
  constexpr unsigned pause_rounds = 4;
  constexpr unsigned yield_rounds = 64;
  constexpr unsigned rounds_per_step = 32;
  const unsigned round = block.idle_rounds++;
  if (round < pause_rounds) {
    for (int i = 0; i < 16; ++i) _mm_pause();
  } else if (round < pause_rounds + yield_rounds) {
    sched_yield();
  } else {
    const uint64_t steps = 1 + (round - pause_rounds - yield_rounds) / rounds_per_step;
    sleep_ns(std::min(steps * settings().poll_sleep_ns_min, settings().poll_sleep_ns_max));
  }
}

unsigned arrive(int id, int count, unsigned vote) {
  Fiber* self = current_fiber;
  Block& block = *self->block;
  scheduling_point(block);
  if (id < 0 || id >= barriers_max) fatal("barrier %d does not exist (%s)", id, describe(block).c_str());
  Barrier& barrier = block.barriers[id];
  const unsigned expected = count > 0 ? static_cast<unsigned>(count) : block.threads;
  if (barrier.arrived != 0 && barrier.expected != expected) {
    fatal("barrier %d entered for %u and for %u threads (%s)", id, barrier.expected, expected, describe(block).c_str());
  }
  barrier.expected = expected;
  barrier.votes |= vote;
  ++barrier.arrived;
  note_progress(block);
  self->state = id;
  if (barrier.arrived == expected) {
    const unsigned votes = barrier.votes;
    unsigned left = expected;
    barrier.arrived = 0;
    barrier.votes = 0;
    // The last to arrive queues with the others: lanes must resume in ascending order.
    const unsigned* warps = block.order.next();
    for (unsigned k = 0; left != 0 && k * warp_size < block.threads; ++k) {
      Fiber* first = &block.fibers[warps[k] * warp_size];
      Fiber* last = std::min(first + warp_size, &block.fibers[block.threads]);
      for (Fiber* fiber = first; fiber < last; ++fiber) {
        if (fiber->state != id) continue;
        fiber->vote = votes;
        push_back(block, fiber);
        --left;
      }
    }
  }
  run_next(block, self);
  return self->vote;
}

Rendezvous* join_exchange(Warp& warp, uint32_t mask) {
  for (uint32_t in_use = warp.in_use; in_use != 0; in_use &= in_use - 1) {
    const unsigned index = static_cast<unsigned>(__builtin_ctz(in_use));
    Rendezvous& record = warp.exchanges[index];
    if (record.readers_left == 0) {
      warp.in_use &= ~(1u << index);
    } else if (!record.complete && record.mask == mask) {
      return &record;
    }
  }
  const unsigned free_index = static_cast<unsigned>(__builtin_ctz(~warp.in_use));
  Rendezvous& record = warp.exchanges[free_index];
  warp.in_use |= 1u << free_index;
  record.mask = mask;
  record.arrived = 0;
  record.complete = false;
  record.readers_left = __builtin_popcount(mask);
  return &record;
}

// Lanes of `mask` become ready in ascending order.
void wake_lanes(Block& block, Fiber* lane_zero, uint32_t mask) {
  if (block.order.jump_the_queue()) {
    while (mask != 0) {
      const unsigned lane = 31 - __builtin_clz(mask);
      push_front(block, lane_zero + lane);
      mask &= ~(1u << lane);
    }
    return;
  }
  for (; mask != 0; mask &= mask - 1) push_back(block, lane_zero + __builtin_ctz(mask));
}

// A lane that returned is no longer waited for.
void leave_exchanges(Block& block, Fiber* self) {
  Warp& warp = block.warps[self->warp];
  const uint32_t lane_bit = 1u << self->lane;
  warp.live &= ~lane_bit;
  for (Rendezvous& record : warp.exchanges) {
    if (record.readers_left == 0 || record.complete || (record.mask & lane_bit) == 0) continue;
    record.mask &= ~lane_bit;
    --record.readers_left;
    if (record.arrived != record.mask) continue;
    record.complete = true;
    wake_lanes(block, self - self->lane, record.mask);
  }
}

// ---- the life of a fiber

void fiber_main() {
  Fiber* self = current_fiber;
  Block& block = *self->block;
  block.launch.kernel->invoke(block.launch.function, block.launch.arguments);
  scheduling_point(block);
  self->state = fiber_finished;
  leave_exchanges(block, self);
  note_progress(block);
  void* never_resumed;
  if (--block.alive == 0) ccld_cpu_device_switch(&never_resumed, block.scheduler_context);
  Fiber* next = pop(block);
  current_fiber = next;
  ccld_cpu_device_switch(&never_resumed, next->stack_pointer);
  __builtin_unreachable();
}

Dim3 unfold(unsigned linear, Dim3 extent) {
  return {linear % extent.x, linear / extent.x % extent.y, linear / (extent.x * extent.y)};
}

void prepare(Block& block, const BlockLaunch& launch) {
  const Dim3 extent = launch.shape.block;
  const unsigned warps = (block.threads + warp_size - 1) / warp_size;
  block.launch = launch;
  block.alive = block.threads;
  block.ready = {};
  note_progress(block);
  block.order.reset(settings().order_seed, launch.launch, launch.block_index, warps);
  std::fill(std::begin(block.barriers), std::end(block.barriers), Barrier{});
  block.stacks.reserve(block.threads);
  for (unsigned w = 0; w < warps; ++w) {
    const unsigned lanes = std::min(block.threads - w * warp_size, warp_size);
    block.warps[w].live = lanes == warp_size ? ~0u : (1u << lanes) - 1;
    block.warps[w].in_use = 0;
    for (Rendezvous& record : block.warps[w].exchanges) record.readers_left = 0;
  }
  const unsigned* order = block.order.next();
  for (unsigned k = 0; k < warps; ++k) {
    for (unsigned lane = 0; lane < warp_size; ++lane) {
      const unsigned index = order[k] * warp_size + lane;
      if (index >= block.threads) break;
      Fiber* fiber = &block.fibers[index];
      fiber->thread_index = unfold(index, extent);
      fiber->linear_index = index;
      fiber->lane = lane;
      fiber->warp = order[k];
      fiber->block = &block;
      fiber->vote = 0;
      fiber->poll_spins = 0;
      fiber->poll_spins_max = settings().abort_spins;
      fiber->poll_wait = {};
      fiber->stack_pointer = prepare_context(block.stacks.end_of(index), fiber_main);
      push_back(block, fiber);
    }
  }
}

}  // namespace

Block::Block(size_t stack_bytes)
    : fibers{},
      warps{},
      barriers{},
      ready{},
      launch{},
      threads(0),
      alive(0),
      scheduler_context(nullptr),
      stacks(stack_bytes),
      shared_memory(nullptr),
      fruitless_polls(0),
      idle_rounds(0),
      scheduling_points(0) {
  // Below 4 GiB: a 32-bit shared address is a truncated pointer.
  void* memory = mmap(nullptr, static_shared_bytes_max + dynamic_shared_bytes_max, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (memory == MAP_FAILED) fatal("cannot map shared memory below 4 GiB: %s", strerror(errno));
  shared_memory = static_cast<char*>(memory);
}

void run_block(Block& block, const BlockLaunch& launch) {
  current_shape = launch.shape;
  current_block_index = unfold(launch.block_index, launch.shape.grid);
  block.threads = launch.shape.block.x * launch.shape.block.y * launch.shape.block.z;
  prepare(block, launch);
  work_for_gpu(launch.gpu);
  block.slow_clock.start();
  block.scheduling_points.store(1, std::memory_order_relaxed);
  if (faults_planted.load(std::memory_order_relaxed)) obey_faults(block);
  current_fiber = pop(block);
  ccld_cpu_device_switch(&block.scheduler_context, current_fiber->stack_pointer);
  current_fiber = nullptr;
  block.slow_clock.settle();
  block.scheduling_points.store(0, std::memory_order_relaxed);
}

// ---- device side of engine.h

void barrier(int id, int count) { arrive(id, count, 0); }

unsigned barrier_or(int id, int count, unsigned vote) { return arrive(id, count, vote); }

Rendezvous* warp_exchange(uint32_t mask, uint64_t value) {
  Fiber* self = current_fiber;
  Block& block = *self->block;
  scheduling_point(block);
  Warp& warp = block.warps[self->warp];
  const uint32_t lane_bit = 1u << self->lane;
  if ((mask & lane_bit) == 0) {
    fatal("warp %u: lane %u takes part in an exchange of lanes 0x%08x (%s)", self->warp, self->lane, mask,
          describe(block).c_str());
  }
  mask &= warp.live;
  Rendezvous* record = join_exchange(warp, mask);
  record->value[self->lane] = value;
  record->arrived |= lane_bit;
  if (mask == lane_bit) {
    record->complete = true;
    return record;
  }
  self->state = fiber_in_exchange;
  if (record->arrived == mask) {
    record->complete = true;
    wake_lanes(block, self - self->lane, mask);
  }
  run_next(block, self);
  return record;
}

void release_rendezvous(Rendezvous* record) { --record->readers_left; }

void poll_yield() {
  Fiber* self = current_fiber;
  Block& block = *self->block;
  scheduling_point(block);
  if (++block.fruitless_polls > block.ready.length + 1) {
    block.fruitless_polls = 0;
    rest(block);
  }
  if (block.ready.head == nullptr) return;
  push_back(block, self);
  run_next(block, self);
}

bool poll_again(int spins) {
  Fiber* self = current_fiber;
  const int limit = self->poll_spins_max;
  // A count that starts anew without having reached the limit is a new loop: the last one got what it waited for.
  if (spins <= self->poll_spins && self->poll_spins < limit) {
    note_progress(*self->block);
    self->poll_wait = {};
  }
  self->poll_spins = spins;
  poll_yield();
  return spins < limit;
}

void trap(const char* what) {
  if (current_fiber == nullptr) fatal("trap: %s", what);
  fatal("trap: %s (thread %u; %s)", what, current_fiber->linear_index, describe(*current_fiber->block).c_str());
}

uint64_t global_timer_ns() { return monotonic_ns(); }

}  // namespace ccld::cpu_device
