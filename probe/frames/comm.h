// One communicator as the probe sees it: the mapping of its frame and what its owners keep beside it.
//
// Contract
//   Created by comm_create (frame_file.cc), published to the diagnostic thread by comm_ready, detached from it by
//   comm_end, freed by comm_release. Every member names its owner; nobody else writes it.
//
// Threads
//   Constant members may be read by everybody from comm_create to comm_release. `user` belongs to the one thread that
//   is in an NCCL call on the communicator, `agent_state` and `identity` to probe/agent, `connections` is guarded by
//   its mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "probe/frames/new_file.h"
#include "probe/probe.h"
#include "schemas/abi/bus_guard.h"
#include "schemas/abi/frame.h"

namespace ccld::probe {

struct NetConnection {
  abi::Direction direction;
  int channel;
  int peer;
  int net_device;
  std::string net_name;
};

// No call of the communicator has to hold (probe/hold/).
constexpr uint64_t hold_never = UINT64_MAX;

struct Comm {
  // ---- constant after comm_create
  CommSetup setup;
  uint32_t number = 0;     // of this process, from 1
  std::string path;        // of the frame file; empty: there is none
  FileId file;             // which one it is
  bool spare = false;      // the file has the name of a spare one (frame_hide)
  bool borrowed = false;   // the memory is the caller's
  void* memory = nullptr;  // the mapping
  size_t bytes = 0;
  abi::BusGuard guard;     // of a file; lost: somebody has truncated it, and what a GPU writes is not seen any more
  abi::FrameHeader* header = nullptr;      // parts of the mapping
  abi::OpRecord* operations = nullptr;     // abi::ops_max
  abi::P2pRecord* p2ps = nullptr;          // abi::p2ps_max
  abi::ProxyRecord* proxies = nullptr;     // abi::proxies_max
  abi::ProxyTimes* proxy_times = nullptr;  // likewise
  abi::DeviceChannel* channels = nullptr;  // setup.channel_count

  // ---- user thread (HOT functions)
  // Calls whose kernel is known and not handed to CUDA yet: few, and in nearly all cases of one kernel.
  template <unsigned capacity>
  struct Planned {
    struct Call {
      uint64_t number;  // op_seq, or number of the point-to-point call
      uint32_t token;
    };
    uint32_t count = 0;
    Call calls[capacity];
  };
  struct UserSide {
    uint64_t op_seq = 0;  // newest accepted collective
    uint64_t p2p = 0;     // accepted Send and Recv calls
    uint64_t op_seq_before_group = 0, p2p_before_group = 0;
    uint64_t plans = 0;   // kernels begun; the token is made of its low bits
    uint64_t unseen = 0;  // calls made while the probe was stopped
    uint64_t captured_plans = 0;
    uint64_t launched_op_seq = 0;
    uint64_t launched_p2p = 0;
    uint64_t launched_plans = 0;
    uint32_t replay_slots = 0;  // given away
    std::vector<uint64_t> pair_seqs[abi::directions];  // [direction][peer]: calls so far
    Planned<abi::ops_max> planned_operations;
    Planned<abi::p2ps_max> planned_p2ps;
  } user;

  // ---- proxy progress thread
  struct ProxySide {
    static constexpr unsigned bucket_bits = 9;
    static constexpr unsigned buckets = 1u << bucket_bits;
    static_assert(buckets >= 2 * abi::proxies_max, "a search must always meet a free bucket");
    static constexpr unsigned dropped_bits_log2 = 12;
    uint64_t ticks = 0;
    uint64_t dropped = 0;
    uint64_t away_to_ns = 0;                  // until then it is told how long the proxy was away, whatever connection
    uint32_t records = 0;                     // in use, from the first on
    uint16_t record_of_bucket[buckets] = {};  // hash table over connections: 0 is free, else record index + 1
    uint64_t dropped_seen[(1u << dropped_bits_log2) / 64] = {};  // one bit for each connection without a record
  } proxy_side;

  // ---- any thread
  std::mutex connections_mutex;
  std::vector<NetConnection> connections;        // guarded by connections_mutex
  std::atomic<uint32_t> connections_version{0};  // increases with every addition, and with every bit of StateLine::hidden
  std::atomic<uint64_t> hold_before{hold_never};  // that collective and later ones hold; 0: every call
  std::atomic<bool> detached{false};  // set by comm_end before anything is taken away: HOT functions then do nothing

  // ---- probe/agent
  CommIdentity identity{};  // copy made by comm_ready
  void* agent_state = nullptr;
};

// Whether a call by the user thread, which is not counted yet, has to hold.
inline bool has_to_hold(const Comm& comm, bool collective) {
  return comm.hold_before.load(std::memory_order_relaxed) <= (collective ? comm.user.op_seq + 1 : 0);
}

}  // namespace ccld::probe
