#include "nccl/cpu_device/engine/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "nccl/cpu_device/base/diagnostics.h"

#if !defined(__x86_64__)
#error "the CPU device's context switch is written for x86-64"
#endif

// System V ABI: the callee saves rbx, rbp and r12 to r15; everything else is dead across a call. The floating point
// control words are the same in all fibers.
asm(R"(
    .text
    .globl ccld_cpu_device_switch
    .hidden ccld_cpu_device_switch
    .type ccld_cpu_device_switch, @function
ccld_cpu_device_switch:
    pushq %rbx
    pushq %rbp
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbp
    popq %rbx
    ret
    .size ccld_cpu_device_switch, . - ccld_cpu_device_switch
)");

namespace ccld::cpu_device {
namespace {

constexpr unsigned saved_registers = 6;
// Each guard page splits a mapping in two, and the kernel allows 65530 mappings a process (vm.max_map_count).
constexpr unsigned guard_pages_max = 24000;
constexpr unsigned stacks_per_mapping = warp_size;

std::atomic<unsigned> guard_pages{0};

void guard(char* page, size_t page_bytes) {
  if (guard_pages.fetch_add(1, std::memory_order_relaxed) < guard_pages_max) {
    if (mprotect(page, page_bytes, PROT_NONE) == 0) return;
  }
  static std::atomic<bool> warned{false};
  if (!warned.exchange(true)) {
    report(
        "more than %u CUDA threads at once: the stacks of the others have no guard page (lower NCCL_MAX_NCHANNELS "
        "or NCCL_NTHREADS)",
        guard_pages_max);
  }
}

}  // namespace

void* prepare_context(char* stack_end, void (*entry)()) {
  // As if `entry` had been called: its return address slot is at 16n+8, below it what the switch pops.
  void** stack_pointer = reinterpret_cast<void**>(stack_end);
  *--stack_pointer = nullptr;
  *--stack_pointer = reinterpret_cast<void*>(entry);
  stack_pointer -= saved_registers;
  memset(stack_pointer, 0, saved_registers * sizeof(void*));
  return stack_pointer;
}

void StackPool::reserve(unsigned count) {
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  while (ends_.size() < count) {
    const size_t bytes = stack_bytes_ * stacks_per_mapping;
    void* memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) fatal("cannot map the stacks of %u CUDA threads: %s", count, strerror(errno));
    for (unsigned i = 0; i < stacks_per_mapping; ++i) {
      char* stack = static_cast<char*>(memory) + i * stack_bytes_;
      guard(stack, page_bytes);
      ends_.push_back(stack + stack_bytes_);
    }
  }
}

}  // namespace ccld::cpu_device
