// When a loop that polls on a GPU shows its wait: part of ccld_hooks_device.h, which has the times.
#ifndef CCLD_POLLS_DEVICE_H_
#define CCLD_POLLS_DEVICE_H_

// A loop that polls has upstream's counter of polls and not one register more. After its first 64 polls (20 to 60 us: a
// poll is a load from the GPU's memory or another's) the counter holds
//   bits 0..13    polls since the wait was due last, or since these 64
//   bit 14        so many polls that the wait is due whatever the clock says: a clock that stands still, or has gone
//                 on by a turn while the GPU ran another process, must not keep an abort from being seen
//   bits 15..29   the tick at which the wait is due next: the low bits, which turn in 34 ms
//   bit 30        whether it was shown before
constexpr int ccld_polls_between_looks = 64;
constexpr uint32_t ccld_many_polls = 1u << 14;  // 5 to 15 ms; upstream: 10,000
constexpr int ccld_due_shift = 15;
constexpr uint32_t ccld_tick_mask = (1u << 15) - 1;
constexpr uint32_t ccld_shown_before = 1u << 30;
// A tick that has passed is one bit of a difference, in the place of the bit of the polls: both are tested as one.
static_assert(ccld_many_polls == (ccld_tick_mask + 1) / 2 && ccld_many_polls << 1 == 1u << ccld_due_shift);
static_assert(ccld_tick_mask << ccld_due_shift < ccld_shown_before && ccld_many_polls > ccld_wait_shown_again_us);
// A tick that is due is odd: so a counter that holds one is told from that of the first polls.
constexpr uint32_t ccld_due_is_odd = 1u << ccld_due_shift;

__device__ __forceinline__ bool ccld_wait_is_due(int spins, uint32_t tick) {
  const uint32_t left = (static_cast<uint32_t>(spins) >> ccld_due_shift) - tick;
  return (((left - 1) | static_cast<uint32_t>(spins)) & ccld_many_polls) != 0;
}

__device__ __forceinline__ int ccld_due_in(uint32_t us, uint32_t flag) {
  return static_cast<int>(((ccld_tick() + us) & ccld_tick_mask) << ccld_due_shift | flag | ccld_due_is_odd);
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
      "or.b32 word, word, %1;\n\t"
      "and.b32 word, word, %6;\n\t"
      "setp.eq.u32 p, word, 0;\n\t"
      "@p bra DONE;\n\t"
      // warp_polls()
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
      "or.b32 %1, tick, %11;\n\t"
      "bra DONE;\n"
      "FIRST:\n\t"
      "add.u32 tick, tick, %8;\n\t"
      "and.b32 tick, tick, %5;\n\t"
      "shl.b32 tick, tick, %4;\n\t"
      "or.b32 %1, tick, %12;\n"
      "DONE:\n\t"
      "}"
      : "=&r"(on), "+r"(spins)
      : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(&ncclShmem.channel.ccld))), "n"(ccld_polls_between_looks),
        "n"(ccld_due_shift), "n"(ccld_tick_mask), "n"(ccld_many_polls), "n"(ccld_shown_before),
        "n"(ccld_wait_shown_after_us), "n"(ccld_wait_shown_again_us),
        "n"(offsetof(ccld::abi::DeviceChannel, warp_poll_tick)), "n"(ccld_shown_before | ccld_due_is_odd),
        "n"(ccld_due_is_odd)
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
  if (!ccld_wait_is_due(spins, ccld_tick())) return true;
  ccld::device::warp_polls(ccld_channel(), ccld_warp(), ccld_tick());
  const bool shown_before = (spins & ccld_shown_before) != 0;
  spins = ccld_due_in(ccld_wait_shown_again_us, ccld_shown_before);
  return !shown_before;
}

// At the poll after that at which the wait of the warp was shown first: no look at the clock is needed.
__device__ __forceinline__ bool ccld_lane_is_due(int spins) {
  constexpr uint32_t all_polls = (1u << ccld_due_shift) - 1;
  return (static_cast<uint32_t>(spins) & (ccld_shown_before | all_polls)) == ccld_shown_before;
}

#endif
