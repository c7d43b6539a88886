// What the lines inserted into NCCL's device code call: translates its shared memory and roles to the probe's frame
// writer.
//
// Included by upstream's device/common.h after the declaration of ncclShmem. Every function returns at once when the
// channel has no frame (`ncclShmem.channel.ccld` is null), which also holds for channels beyond those that the frame
// has room for. `direction` is 0 for receiving and 1 for sending; steps are NCCL's connection steps.
//
// Counted: Ring, Tree, CollNet, NVLS and point-to-point kernels, in all protocols. A lane counts what its newest
// primitive did: of several operations in one kernel, the last. PAT kernels and receives or sends of registered buffers
// that the network device does alone have no lanes; symmetric kernels have nothing here.
//
// Cost: what follows a null check is one store to mapped host memory, never a load or fence. Nothing here is in a loop
// that polls but on the slow path that checkAbort() takes every NCCL_SPINS_BEFORE_CHECK_ABORT spins.
#ifndef CCLD_HOOKS_DEVICE_H_
#define CCLD_HOOKS_DEVICE_H_

#include "probe/device/frame_writer_device.h"

__device__ __forceinline__ unsigned long long int globaltimer();

__device__ __forceinline__ ccld::abi::DeviceChannel* ccld_channel() {
  return static_cast<ccld::abi::DeviceChannel*>(ncclShmem.channel.ccld);
}

// Every thread, after the block's shared memory is set up and before its first work.
__device__ __forceinline__ void ccld_kernel_begins() {
  if (threadIdx.x != 0 || ccld_channel() == nullptr) return;
  ccld::device::round_begins(ccld_channel(), ncclShmem.args.ccld_token, globaltimer());
}

// Every thread, when it has nothing more to do. The last one to come writes the end: earlier ones may still have
// neighbours that wait for data. There is no barrier, because the threads of an aborted kernel need not all be where a
// barrier expects them.
__device__ __forceinline__ void ccld_kernel_ends() {
  if (ccld_channel() == nullptr) return;
  const unsigned finished_before = atomicAdd(&ncclShmem.ccld_finished_threads, 1u);
  if (finished_before != blockDim.x - 1) return;
  const uint32_t flags = ncclShmem.aborted != 0 ? ccld::abi::round_aborted : 0u;
  ccld::device::round_ends(ccld_channel(), ncclShmem.args.ccld_token, flags, globaltimer());
}

// The thread that will post to `peer`, once it knows its first step. `tid` and `nthreads` are those of the thread
// group.
__device__ __forceinline__ void ccld_lane_opens(int direction, int group, int peer_index, uint64_t step, int peer,
                                                int tid, int nthreads) {
  if (ccld_channel() == nullptr) return;
  const uint32_t first_warp = (threadIdx.x - tid) / WARP_SIZE;
  const uint32_t peer_and_warps = ccld::device::pack_peer_and_warps(peer, first_warp, nthreads / WARP_SIZE);
  ccld::device::lane_opens(ccld_channel(), direction, group, peer_index, ncclShmem.args.ccld_token, step,
                           peer_and_warps);
}

// The same thread, after each post.
__device__ __forceinline__ void ccld_lane_posts(int direction, int group, int peer_index, uint64_t step) {
  ccld::device::lane_posts(ccld_channel(), direction, group, peer_index, step);
}

// The thread that waits for `peer`, after each call of checkAbort(). Stores only when that took its slow path, which
// leaves `spins` at 0.
__device__ __forceinline__ void ccld_lane_waits(int spins, int direction, int group, int peer_index, uint64_t want,
                                                uint64_t seen) {
  if (spins != 0 || ccld_channel() == nullptr) return;
  ccld::device::lane_waits(ccld_channel(), direction, group, peer_index, want, seen,
                           ccld::device::tick_of(globaltimer()));
}

// Any thread, on the slow path of checkAbort().
__device__ __forceinline__ void ccld_warp_polls() {
  if (ccld_channel() == nullptr) return;
  ccld::device::warp_polls(ccld_channel(), threadIdx.x / WARP_SIZE, ccld::device::tick_of(globaltimer()));
}

#endif
