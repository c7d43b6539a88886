// What a GPU thread writes into the device part of a probing frame, and how.
// (Paper, section 5.2: SendCount and RecvCount are kept by the kernel itself, in memory that the host reads.)
//
// Contract
//   Every function takes the channel's part of the frame, mapped pinned host memory as the GPU sees it, and does
//   nothing when it is null. The GPU only ever stores: no load, no fence, no atomic, nothing to wait for. A store is
//   either one aligned 16-byte row that carries its own run, or one 4-byte word, and every row and word has one
//   writing thread at a time; readers sort out what is valid with the rules of schemas/abi/frame.h. Relaxed stores of
//   system scope: each becomes visible whole and in its own time.
//
// Threads: the one that the function names. Builds under nvcc and, for the CPU device and for tests, under a host
// compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schemas/abi/frame.h"

#if defined(__CUDACC__)
#define CCLD_DEVICE __device__ __forceinline__
#else
#define CCLD_DEVICE inline
#endif

namespace ccld::device {

constexpr uint32_t direction_recv = static_cast<uint32_t>(abi::Direction::recv);
constexpr uint32_t direction_send = static_cast<uint32_t>(abi::Direction::send);
static_assert(direction_recv == 0 && direction_send == 1, "NCCL's hooks pass 0 and 1");

// ---- stores -------------------------------------------------------------------------------------------------------

CCLD_DEVICE void store_word(uint32_t* word, uint32_t value) {
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  __atomic_store_n(word, value, __ATOMIC_RELAXED);
#endif
}

// `row` is 16-byte aligned. One thread's aligned 16-byte store travels as one write.
CCLD_DEVICE void store_row(void* row, uint32_t word0, uint32_t word1, uint32_t word2, uint32_t word3) {
#if defined(__CUDACC__)
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(row), "r"(word0), "r"(word1), "r"(word2),
               "r"(word3)
               : "memory");
#elif defined(__SANITIZE_THREAD__)
  auto* words = static_cast<uint32_t*>(row);
  store_word(words + 1, word1);
  store_word(words + 2, word2);
  store_word(words + 3, word3);
  store_word(words, word0);
#else
  // One vector store: whole on every x86-64 and AArch64 processor of today, like the GPU's.
  typedef uint32_t Row __attribute__((vector_size(16), may_alias));
  *static_cast<volatile Row*>(row) = Row{word0, word1, word2, word3};
#endif
}

// ---- layout -------------------------------------------------------------------------------------------------------

// The functions of frame.h are for the host only; these say the same to the GPU.
CCLD_DEVICE constexpr uint32_t lane_index(uint32_t group, uint32_t peer_index) {
  return (group % abi::lane_groups) * abi::lane_peers + peer_index % abi::lane_peers;
}

CCLD_DEVICE constexpr uint32_t pack_peer_and_warps(uint32_t peer, uint32_t first_warp, uint32_t warp_count) {
  return abi::lane_in_use | (peer & 0xfffffu) | ((first_warp & 31u) << 20) | (((warp_count - 1) & 31u) << 25);
}

#if !defined(__CUDACC__)
static_assert(lane_index(9, 6) == abi::lane_index(9, 6) && lane_index(3, 2) == abi::lane_index(3, 2));
static_assert(pack_peer_and_warps(0x12345, 17, 20) == abi::pack_peer_and_warps(0x12345, 17, 20));
#endif

// ---- rounds: one thread of the block ------------------------------------------------------------------------------

CCLD_DEVICE abi::RoundRow& round_of(abi::DeviceChannel* channel, uint32_t run) {
  return channel->rounds[run % abi::rounds_max];
}

CCLD_DEVICE void round_begins(abi::DeviceChannel* channel, uint32_t run, uint32_t token, uint64_t device_ns) {
  if (channel == nullptr) return;
  store_row(&round_of(channel, run).begin_run, run, token, static_cast<uint32_t>(device_ns),
            static_cast<uint32_t>(device_ns >> 32));
}

// The kernel was recorded into a graph, and this is its `index`-th replay. Before round_begins.
CCLD_DEVICE void round_replays(abi::DeviceChannel* channel, uint32_t run, uint32_t index) {
  if (channel == nullptr) return;
  store_row(&round_of(channel, run).replay_run, run, index, 0, 0);
}

// `flags`: abi::RoundFlag. The totals are those of all kernels up to this one on the channel. To be called by the
// block's last thread.
CCLD_DEVICE void round_ends(abi::DeviceChannel* channel, uint32_t run, uint32_t flags, uint32_t send_steps_total,
                            uint32_t recv_steps_total, uint32_t busy_ns_total, uint64_t duration_ns) {
  if (channel == nullptr) return;
  store_row(&round_of(channel, run).end_word, abi::pack_end(run, flags, duration_ns), send_steps_total,
            recv_steps_total, busy_ns_total);
}

// ---- lanes: the thread that posts to (or waits for) the peer ------------------------------------------------------

// A primitive is built: from now on its lane belongs to run `run`, and its count starts at `step`.
CCLD_DEVICE void lane_opens(abi::DeviceChannel* channel, uint32_t direction, uint32_t group, uint32_t peer_index,
                            uint32_t run, uint64_t step, uint32_t peer_and_warps) {
  if (channel == nullptr) return;
  abi::Lane& lane = channel->lanes[direction][lane_index(group, peer_index)];
  store_row(&lane.run, run, static_cast<uint32_t>(step), static_cast<uint32_t>(step), peer_and_warps);
}

// The peer was told that everything before `step` is sent (or consumed).
CCLD_DEVICE void lane_posts(abi::DeviceChannel* channel, uint32_t direction, uint32_t group, uint32_t peer_index,
                            uint64_t step) {
  if (channel == nullptr) return;
  store_word(&channel->lanes[direction][lane_index(group, peer_index)].current_step, static_cast<uint32_t>(step));
}

// The thread polls for step `want` and has seen `seen`. `tick` differs from call to call.
CCLD_DEVICE void lane_waits(abi::DeviceChannel* channel, uint32_t direction, uint32_t group, uint32_t peer_index,
                            uint64_t want, uint64_t seen, uint32_t tick) {
  if (channel == nullptr) return;
  abi::Lane& lane = channel->lanes[direction][lane_index(group, peer_index)];
  static_assert(static_cast<uint32_t>(abi::WaitKind::data) == 1 + direction_recv &&
                static_cast<uint32_t>(abi::WaitKind::credit) == 1 + direction_send);
  // Single words: a row of 16 bytes wants four registers in a line, which the polling loops do not have to spare. A
  // reader may meet words of two polls; it counts a wait by its step while the tick moves, which either of them tells
  // rightly.
  store_word(&lane.want_step, static_cast<uint32_t>(want));
  store_word(&lane.seen_step, static_cast<uint32_t>(seen));
  store_word(&lane.wait_kind, 1 + direction);
  store_word(&lane.poll_tick, tick);
}

// ---- any thread ---------------------------------------------------------------------------------------------------

// A thread of the warp polled for a while without success. `tick` differs from call to call. The only word with several
// writers: the threads of one warp, which all mean the same.
CCLD_DEVICE void warp_polls(abi::DeviceChannel* channel, uint32_t warp, uint32_t tick) {
  if (channel == nullptr) return;
  store_word(&channel->warp_poll_tick[warp % abi::warps_max], tick);
}

// Turns a device clock into a tick: about a microsecond, so that two slow spins never give the same one.
CCLD_DEVICE uint32_t tick_of(uint64_t device_ns) { return static_cast<uint32_t>(device_ns >> 10); }

}  // namespace ccld::device
