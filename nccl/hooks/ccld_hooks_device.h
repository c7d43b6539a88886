// What the lines inserted into NCCL's device code call: translates its shared memory and roles to the probe's frame
// writer.
//
// Included by upstream's device/common.h after the declaration of ncclShmem. Every function returns at once when the
// block is not watched (`ncclShmem.channel.ccld` is null): no frame, a channel that the frame has no room for, or a
// launch without a token because the probe was stopped. `direction` is 0 for receiving and 1 for sending; steps are
// NCCL's connection steps.
//
// Counted: Ring, Tree, CollNet, NVLS, PAT and point-to-point kernels, in all protocols. A lane shows its newest
// primitive; ncclShmem.channel.ccld_totals counts all primitives: minus the step at which each begins, plus the one at
// which it ends. It goes on from the channel's totals in device memory, and becomes them when the kernel ends. Sends
// and receives of registered buffers that the network device does alone are not counted; symmetric kernels have nothing
// here.
//
// Cost: what follows a null check is one store to mapped host memory, never a load of it or a fence for it; the sums cost
// one addition in shared memory when a primitive begins and one when it ends, the end of a kernel one acquire-release
// addition there for each warp.
// A loop that polls runs upstream's instructions for its first ccld_polls_between_looks polls; then it looks at the
// time now and then, and shows a wait that lasts.
#ifndef CCLD_HOOKS_DEVICE_H_
#define CCLD_HOOKS_DEVICE_H_

#include "probe/device/frame_writer_device.h"

__device__ __forceinline__ unsigned long long int globaltimer();

// What happens in watched blocks only. A host compiler shall keep it out of the way of the others; nvcc inlines it,
// since a call takes registers of every function that may come to it.
#if defined(__CUDACC__)
#define CCLD_WATCHED __device__ __forceinline__
#else
#define CCLD_WATCHED static __attribute__((noinline))
#endif

__device__ __forceinline__ ccld::abi::DeviceChannel* ccld_channel() {
  // Volatile: reading it again is cheaper than a register that holds it.
  return static_cast<ccld::abi::DeviceChannel*>(*const_cast<void* volatile*>(&ncclShmem.channel.ccld));
}

// Differs from microsecond to microsecond.
__device__ __forceinline__ uint32_t ccld_tick() {
  uint32_t nanoseconds;
  asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(nanoseconds));
  return ccld::device::tick_of(nanoseconds);
}

// ---- kernels --------------------------------------------------------------------------------------------------------

// In place of -1, which is upstream's word for "no further batch of work": the same in a block that is watched. So the
// threads of other blocks leave the loop over the batches by upstream's own test and pay nothing.
constexpr int ccld_last_batch = -2;

// What a channel's kernels add up to: ncclDevChannel::ccld_totals. Shared memory's copy of it goes on with this
// kernel's steps and time, and becomes the next value in device memory.
constexpr unsigned ccld_total_runs = 0, ccld_total_steps = 1, ccld_total_busy_ns = 3;  // steps: of each direction

// As one aligned store.
struct alignas(16) ccld_channel_totals {
  uint32_t runs, recv_steps, send_steps, busy_ns;
};

// The thread that has said which batch is next.
__device__ __forceinline__ void ccld_batch_loaded() {
  if (ncclShmem.nextBatchIx == -1 && ncclShmem.args.ccld_token != 0) ncclShmem.nextBatchIx = ccld_last_batch;
}

// The warp that has copied the channel into shared memory, before the barrier that publishes it. What our hooks want to
// know came with it: no load of their own. `thread` is that of the warp; each has copied 16 bytes.
__device__ __forceinline__ void ccld_channel_loaded(int thread) {
  // The launch is not watched.
  if (thread == offsetof(ncclDevChannel, ccld) / 16 && ncclShmem.args.ccld_token == 0) ncclShmem.channel.ccld = nullptr;
}

// The kernel's number on the channel.
__device__ __forceinline__ uint32_t ccld_run() { return ncclShmem.channel.ccld_totals[ccld_total_runs] + 1; }

// Out of line as the lanes' functions are: inlined, it changed how g++ shares registers out in the whole kernel.
CCLD_WATCHED void ccld_watched_kernel_begins(ccld::abi::DeviceChannel* frame) {
  const uint64_t now_ns = globaltimer();
  const uint32_t run = ccld_run();
  ncclShmem.ccld_begin_ns = now_ns;
  const uint32_t slot = ncclShmem.args.ccld_replay_slot;
  // Replays of one graph never overlap, and block 0 has the lowest channel.
  if (slot != 0 && blockIdx.x == 0) {
    auto* devices = reinterpret_cast<ncclKernelCommAndChannels*>(ncclShmem.args.comm);
    static_assert(sizeof(devices->ccld_replays) == ccld::abi::replay_slots_max * sizeof(uint32_t));
    ccld::device::round_replays(frame, run, ++devices->ccld_replays[slot - 1]);
  }
  ccld::device::round_begins(frame, run, ncclShmem.args.ccld_token, now_ns);
}

// One thread, behind the barrier that publishes shared memory. The last one of the block: in Simple its warp moves no
// data where a block has many threads.
__device__ __forceinline__ void ccld_kernel_begins() {
  ccld::abi::DeviceChannel* frame = ccld_channel();
  if (frame != nullptr) ccld_watched_kernel_begins(frame);
}

// As one load, which stays where it stands.
__device__ __forceinline__ ccld_channel_totals ccld_read_totals() {
#if defined(__CUDACC__)
  ccld_channel_totals totals;
  asm volatile("ld.volatile.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(totals.runs), "=r"(totals.recv_steps), "=r"(totals.send_steps), "=r"(totals.busy_ns)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(ncclShmem.channel.ccld_totals))));
  return totals;
#else
  return *reinterpret_cast<const ccld_channel_totals*>(ncclShmem.channel.ccld_totals);
#endif
}

// The next kernel on the channel begins after this one has ended, so it finds the totals.
__device__ __forceinline__ void ccld_end_is_written() {
  // All loads stand before the test, which would hold up those behind it.
  ccld::abi::DeviceChannel* frame = ccld_channel();
  ccld_channel_totals sums = ccld_read_totals();
  const uint64_t begin_ns = *const_cast<const volatile uint64_t*>(&ncclShmem.ccld_begin_ns);
  const int aborted = *const_cast<const volatile int*>(&ncclShmem.aborted);
  const int channel = *const_cast<const volatile int*>(&ncclShmem.channelId);
  ncclKernelComm* comm = *const_cast<ncclKernelComm* const volatile*>(&ncclShmem.args.comm);
  const uint64_t duration_ns = globaltimer() - begin_ns;
  if (frame == nullptr) return;
  ++sums.runs;
  sums.busy_ns += static_cast<uint32_t>(duration_ns);
  auto* devices = reinterpret_cast<ncclKernelCommAndChannels*>(comm);
  *reinterpret_cast<ccld_channel_totals*>(devices->channels[channel].ccld_totals) = sums;
  ccld::device::round_ends(frame, sums.runs, aborted != 0 ? ccld::abi::round_aborted : 0u, sums.send_steps,
                           sums.recv_steps, sums.busy_ns, duration_ns);
}

// On a GPU the first thread of a warp arrives for all of it.
#if defined(__CUDACC__)
constexpr unsigned ccld_threads_of_arrival = WARP_SIZE;
#else
constexpr unsigned ccld_threads_of_arrival = 1;  // the threads of a block are fibers, which run one after the other
#endif

__device__ __forceinline__ unsigned ccld_arrivals_of_block() { return blockDim.x / ccld_threads_of_arrival; }

// Arrivals before this one. What threads had added to the sums before they arrived is seen by whoever comes later.
__device__ __forceinline__ unsigned ccld_arrives() {
#if defined(__CUDACC__)
  // Not an addition, before which nvcc would count the threads that add, here one. The limit, behind which it would
  // begin again at 0, is never reached. (atomicInc() between two __threadfence_block() would be two fences, and
  // stronger ones.)
  unsigned before;
  asm volatile("atom.acq_rel.cta.shared.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&ncclShmem.channel.ccld_arrived))),
                 "r"(2 * ccld_arrivals_of_block())
               : "memory");
  return before;
#else
  return atomicAdd(&ncclShmem.channel.ccld_arrived, 1u);
#endif
}

#if defined(__CUDACC__)
__device__ __forceinline__ void ccld_warp_ends() {
  __syncwarp();
  if (threadIdx.x % ccld_threads_of_arrival != 0) return;
  if (ccld_arrives() == ccld_arrivals_of_block() - 1) ccld_end_is_written();
}
#endif

// As a call, its registers do not count against the kernel's.
static __device__ __attribute__((noinline)) void ccld_thread_ends_by_call() {
#if defined(__CUDACC__)
  ccld_warp_ends();
#else
  if (ccld_arrives() == ccld_arrivals_of_block() - 1) ccld_end_is_written();
#endif
}

// Whether a kernel is made for LL: what RunWorkBatch of common.h is for.
template <class Batch>
struct ccld_is_for_ll {
  static constexpr bool value = false;
};
template <template <ncclFunc_t, class, class, int, int> class Batch, ncclFunc_t function, class T, class Op,
          int algorithm>
struct ccld_is_for_ll<Batch<function, T, Op, algorithm, NCCL_PROTO_LL>> {
  static constexpr bool value = true;
};

// Every thread of a watched block, when it has nothing more to do. The last one to come writes the end: earlier ones
// may still have neighbours that wait for data. There is no barrier of the block, because the threads of an aborted
// kernel need not all be where a barrier expects them; those of a warp wait for each other, or have left the kernel.
// `for_ll`: in the kernels of small operations, where a call is felt, there is none.
__device__ __forceinline__ void ccld_thread_ends(bool for_ll) {
#if defined(__CUDACC__)
  if (for_ll) {
    ccld_warp_ends();
    return;
  }
#endif
  ccld_thread_ends_by_call();
}

// Thread 0 of any block, at its end. Threads that an abort has kept from the last batch do not come to
// ccld_thread_ends(): if any are missing by now, thread 0 writes the end in the place of the last one.
static __device__ __attribute__((noinline)) void ccld_aborted_kernel_ends() {
  if (ccld_channel() == nullptr) return;
  const unsigned all = ccld_arrivals_of_block();
  if (atomicAdd(&ncclShmem.channel.ccld_arrived, all) < all) ccld_end_is_written();
}

__device__ __forceinline__ void ccld_kernel_ends() {
  if (ncclShmem.aborted != 0) ccld_aborted_kernel_ends();
}

// ---- lanes ----------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void ccld_add_steps(int direction, unsigned steps) {
  atomicAdd(&ncclShmem.channel.ccld_totals[ccld_total_steps + direction], steps);
}

CCLD_WATCHED void ccld_watched_lane_opens(int direction, int group, int peer_index, uint64_t step, int peer, int tid,
                                          int nthreads) {
  ccld_add_steps(direction, 0u - static_cast<unsigned>(step));
  const uint32_t first_warp = (threadIdx.x - tid) / WARP_SIZE;
  const uint32_t peer_and_warps = ccld::device::pack_peer_and_warps(peer, first_warp, nthreads / WARP_SIZE);
  ccld::device::lane_opens(ccld_channel(), direction, group, peer_index, ccld_run(), step, peer_and_warps);
}

// The thread that will post to `peer`, once it knows its first step. `tid` and `nthreads` are those of the thread
// group.
__device__ __forceinline__ void ccld_lane_opens(int direction, int group, int peer_index, uint64_t step, int peer,
                                                int tid, int nthreads) {
  if (ccld_channel() == nullptr) return;
  ccld_watched_lane_opens(direction, group, peer_index, step, peer, tid, nthreads);
}

CCLD_WATCHED void ccld_watched_lane_posts(int direction, int group, int peer_index, uint64_t step) {
  ccld::device::lane_posts(ccld_channel(), direction, group, peer_index, step);
}

// The same thread, after each post.
__device__ __forceinline__ void ccld_lane_posts(int direction, int group, int peer_index, uint64_t step) {
  if (ccld_channel() == nullptr) return;
  ccld_watched_lane_posts(direction, group, peer_index, step);
}

// The same in LL and LL128, where data and post are one: a send is told behind its data, at the end of the operation. A
// thread mostly waits for its peers then; before the data it would hold it up, and so it would at the kernel's end.
#if defined(__CUDACC__)
// One block of instructions without a branch: the frame's address, a test, and a store under a predicate. As
// ccld_lane_posts it took 0.2 us more of an AllReduce of 8 bytes (H100), and more stack on sm_100. In Simple it would
// spill more registers of SendRecv. DESIGN.md has the figures.
__device__ __forceinline__ void ccld_lane_posts_ll(int direction, int group, int peer_index, uint64_t step) {
  using ccld::abi::DeviceChannel;
  using ccld::abi::Lane;
  const uint32_t lane = direction * ccld::abi::lanes_per_direction + ccld::device::lane_index(group, peer_index);
  const uint32_t offset =
      offsetof(DeviceChannel, lanes) + offsetof(Lane, current_step) + lane * static_cast<uint32_t>(sizeof(Lane));
  asm volatile(
      "{\n\t"
      ".reg .u64 frame, offset;\n\t"
      ".reg .pred watched;\n\t"
      "ld.volatile.shared.u64 frame, [%0];\n\t"
      "setp.ne.u64 watched, frame, 0;\n\t"
      "cvt.u64.u32 offset, %1;\n\t"
      "add.u64 frame, frame, offset;\n\t"
      "@watched st.relaxed.sys.global.u32 [frame], %2;\n\t"
      "}" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(&ncclShmem.channel.ccld))),
      "r"(offset), "r"(static_cast<uint32_t>(step))
      : "memory");
}
#else
static inline void ccld_lane_posts_ll(int direction, int group, int peer_index, uint64_t step) {
  ccld_lane_posts(direction, group, peer_index, step);
}
#endif

// The same thread, when the primitive ends at `step`. Without a frame the sum is nonsense that nobody reads.
__device__ __forceinline__ void ccld_lane_closes(int direction, uint64_t step) {
  ccld_add_steps(direction, static_cast<unsigned>(step));
}

// The same in LL and LL128, where the direction is known to nvcc. It lets one thread of a warp add for all that add to
// one place at the same time: eight instructions that wait for each other, here for a single thread. It does not where
// threads may mean different places, and it does not know that the highest bit of a step is always 0. In Simple this
// would spill more registers of SendRecv and CollNet Direct.
__device__ __forceinline__ void ccld_lane_closes_ll(int direction, uint64_t step) {
  ccld_lane_closes(direction + static_cast<int>(step >> 63), step);
}

// ---- waits ----------------------------------------------------------------------------------------------------------

// A wait is shown in the frame when it has lasted that long. Within an NVLink domain a healthy connection takes 25 to
// 50 us for the 512 KiB of a step: slower ones are seen, and steps that come as they should cost no store.
constexpr uint32_t ccld_wait_shown_after_us = 100;
// And again after that long, with a look at the abort flag: upstream's 10,000 polls take 2 to 10 ms.
constexpr uint32_t ccld_wait_shown_again_us = 4000;

#if defined(__CUDACC__)
#include "ccld_polls_device.h"
#else
// checkAbort() lets the other threads of the block run, and counts polls for its own purpose. So the engine keeps for
// each thread when its wait is to be shown. Most waits end within a few polls: these do not look at the clock, which
// would be 2 % more instructions for LL. A wait that lasts is shown so many polls later.
constexpr int ccld_polls_without_clock = 16;

static inline bool ccld_passed(uint32_t tick, uint32_t due) {
  constexpr int unused_bits = 10;  // of a tick
  return static_cast<int32_t>((tick - due) << unused_bits) >= 0;
}

static inline bool ccld_polls_on(int spins) {
  if (spins < ccld_polls_without_clock || ccld_channel() == nullptr) return true;
  ccld::cpu_device::PollWait& wait = ccld::cpu_device::poll_wait();
  const uint32_t tick = ccld_tick();
  if (!wait.known) {
    wait = {true, tick + ccld_wait_shown_after_us, tick + ccld_wait_shown_after_us};
  } else if (ccld_passed(tick, wait.warp_shown_at)) {
    ccld::device::warp_polls(ccld_channel(), threadIdx.x / WARP_SIZE, tick);
    wait.warp_shown_at = tick + ccld_wait_shown_again_us;
  }
  return true;
}

static inline bool ccld_lane_is_due(int spins) {
  ccld::cpu_device::PollWait& wait = ccld::cpu_device::poll_wait();
  // checkAbort() is told of a loop at its second poll.
  if (spins < 2 || !wait.known || !ccld_passed(ccld_tick(), wait.lane_shown_at)) return false;
  wait.lane_shown_at = ccld_tick() + ccld_wait_shown_again_us;
  return true;
}
#endif

CCLD_WATCHED void ccld_watched_lane_waits(int direction, int group, int peer_index, uint64_t want, uint64_t seen) {
  ccld::device::lane_waits(ccld_channel(), direction, group, peer_index, want, seen, ccld_tick());
}

// The thread that waits for `peer`, before each call of checkAbort() in a loop that has polled `spins` times. Stores
// only when the wait is to be shown; a load from shared memory beside each poll, which takes less than that. After the
// call it would be the same, but keeps registers busy: 8 to 40 bytes of stack. So does looking at `spins` first: 8
// bytes. And so does NCCL's copy of the peer's step: 560 bytes more of spills are loaded in NVLS. Simple therefore
// tells the step up to which everything has been used as `seen`; the peer gives whole slices, so it is the same but for
// proxies, which give single steps.
__device__ __forceinline__ void ccld_lane_waits(int spins, int direction, int group, int peer_index, uint64_t want,
                                                uint64_t seen) {
  if (ccld_channel() == nullptr || !ccld_lane_is_due(spins)) return;
  ccld_watched_lane_waits(direction, group, peer_index, want, seen);
}

// ---- PAT: all thread groups of the block talk to the same peers, one for each power of two (`dimension`) ------------

// A lane for each dimension.
__device__ __forceinline__ int ccld_pat_group(int dimension) { return dimension / ccld::abi::lane_peers; }

// The thread that reads the first step of a dimension.
__device__ __forceinline__ void ccld_pat_lane_opens(int direction, int dimension, uint64_t step, int peer) {
  if (ccld_channel() == nullptr) return;
  ccld::device::lane_opens(ccld_channel(), direction, ccld_pat_group(dimension), dimension, ccld_run(), step,
                           ccld::device::pack_peer_and_warps(peer, 0, NCCL_PAT_NWORKERS / WARP_SIZE));
}

// The thread that posts, after each post.
__device__ __forceinline__ void ccld_pat_lane_posts(int direction, int dimension, uint64_t step, int steps_posted) {
  if (ccld_channel() == nullptr) return;
  ccld_add_steps(direction, static_cast<unsigned>(steps_posted));
  ccld::device::lane_posts(ccld_channel(), direction, ccld_pat_group(dimension), dimension, step);
}

// As ccld_lane_waits.
__device__ __forceinline__ void ccld_pat_lane_waits(int spins, int direction, int dimension, uint64_t want,
                                                    uint64_t seen) {
  ccld_lane_waits(spins, direction, ccld_pat_group(dimension), dimension, want, seen);
}

#endif
