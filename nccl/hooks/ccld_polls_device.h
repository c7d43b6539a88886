// When a loop that polls on a GPU shows its wait: part of ccld_hooks_device.h, which has the times.
#ifndef CCLD_POLLS_DEVICE_H_
#define CCLD_POLLS_DEVICE_H_

// A loop that polls has upstream's counter of polls and not one register more. After its first 64 polls (20 to 60 us: a
// poll is a load from the GPU's memory or another's) the counter holds, above the polls since the last look at the
// clock, the tick at which the wait is to be shown next, and whether it was shown before.
constexpr int ccld_polls_between_looks = 64;
constexpr int ccld_due_shift = 7;                    // above ccld_polls_between_looks
constexpr uint32_t ccld_tick_mask = (1u << 22) - 1;  // ticks of the clock's low word: it turns in 4.3 s
constexpr uint32_t ccld_shown_before = 1u << 29;
static_assert(1 << ccld_due_shift > ccld_polls_between_looks && ccld_tick_mask << ccld_due_shift < ccld_shown_before);

__device__ __forceinline__ bool ccld_wait_is_due(int spins, uint32_t tick) {
  const uint32_t left = (static_cast<uint32_t>(spins) >> ccld_due_shift) - tick;
  return ((left - 1) & ccld_tick_mask) > ccld_tick_mask / 2;
}

__device__ __forceinline__ int ccld_due_in(uint32_t us, uint32_t flag) {
  return static_cast<int>(((ccld_tick() + us) & ccld_tick_mask) << ccld_due_shift | flag);
}

// Read again where it is needed: a register that holds it is not to be had.
__device__ __forceinline__ uint32_t ccld_warp() {
  uint32_t thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread / WARP_SIZE;
}

// ccld_polls_on() after the test of `spins`, as one block of instructions. With it nvcc shares out registers in LL and
// LL128 on sm_100 as it does without our lines; DESIGN.md has the figures.
__device__ __forceinline__ bool ccld_polls_on_block(int& spins) {
  static_assert(WARP_SIZE == 32, "a warp is thread >> 5");
  uint32_t on;
  asm volatile(
      "{\n\t"
      ".reg .pred p;\n\t"
      ".reg .u32 tick, word;\n\t"
      ".reg .u64 frame, offset;\n\t"
      "mov.u32 %0, 1;\n\t"
      "mov.u32 tick, %%globaltimer_lo;\n\t"
      "shr.u32 tick, tick, 10;\n\t"  // tick_of()
      "setp.eq.u32 p, %1, %3;\n\t"   // the first look
      "@p bra FIRST;\n\t"
      "shr.u32 word, %1, %4;\n\t"  // ccld_wait_is_due()
      "sub.u32 word, word, tick;\n\t"
      "sub.u32 word, word, 1;\n\t"
      "and.b32 word, word, %5;\n\t"
      "setp.gt.u32 p, word, %6;\n\t"
      "@p bra DUE;\n\t"
      "sub.u32 %1, %1, %3;\n\t"
      "bra DONE;\n"
      "DUE:\n\t"  // warp_polls()
      "ld.volatile.shared.u64 frame, [%2];\n\t"
      "setp.ne.u64 p, frame, 0;\n\t"
      "mov.u32 word, %%tid.x;\n\t"
      "shr.u32 word, word, 5;\n\t"
      "mul.wide.u32 offset, word, 4;\n\t"
      "add.u64 frame, frame, offset;\n\t"
      "@p st.relaxed.sys.global.u32 [frame+%10], tick;\n\t"
      "and.b32 word, %1, %7;\n\t"  // shown before
      "setp.eq.u32 p, word, 0;\n\t"
      "selp.u32 %0, 1, 0, p;\n\t"
      "add.u32 tick, tick, %9;\n\t"  // ccld_due_in()
      "and.b32 tick, tick, %5;\n\t"
      "shl.b32 tick, tick, %4;\n\t"
      "or.b32 %1, tick, %7;\n\t"
      "bra DONE;\n"
      "FIRST:\n\t"
      "add.u32 tick, tick, %8;\n\t"
      "and.b32 tick, tick, %5;\n\t"
      "shl.b32 %1, tick, %4;\n"
      "DONE:\n\t"
      "}"
      : "=&r"(on), "+r"(spins)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&ncclShmem.channel.ccld))), "n"(ccld_polls_between_looks),
        "n"(ccld_due_shift), "n"(ccld_tick_mask), "n"(ccld_tick_mask / 2), "n"(ccld_shown_before),
        "n"(ccld_wait_shown_after_us), "n"(ccld_wait_shown_again_us),
        "n"(offsetof(ccld::abi::DeviceChannel, warp_poll_tick))
      : "memory");
  return on != 0;
}

// `abortValue` as LL and LL128 give it to checkAbort(); Simple has a flag there.
constexpr int ccld_abort_of_ll = 1;

// In checkAbort(), after the first polls of a loop. False: it is time for upstream's look at the abort flag.
__device__ __forceinline__ bool ccld_polls_on(int& spins, int abort_value) {
  if (spins % ccld_polls_between_looks != 0) return true;
#if __CUDA_ARCH__ >= 1000
  if (abort_value == ccld_abort_of_ll) return ccld_polls_on_block(spins);
#endif
  if (spins == ccld_polls_between_looks) {
    spins = ccld_due_in(ccld_wait_shown_after_us, 0);
    return true;
  }
  if (!ccld_wait_is_due(spins, ccld_tick())) {
    spins -= ccld_polls_between_looks;
    return true;
  }
  ccld::device::warp_polls(ccld_channel(), ccld_warp(), ccld_tick());
  const bool shown_before = (spins & ccld_shown_before) != 0;
  spins = ccld_due_in(ccld_wait_shown_again_us, ccld_shown_before);
  return !shown_before;
}

__device__ __forceinline__ bool ccld_lane_is_due(int spins) {
  const int polls = spins + 1;
  // A tick early, so that it is never too late for checkAbort(), which is about to show the wait of the warp.
  return polls % ccld_polls_between_looks == 0 && polls != ccld_polls_between_looks &&
         ccld_wait_is_due(polls, ccld_tick() + 1);
}

#endif
