// The probing frame: one file per communicator and rank, shared by the GPU, the host and outside readers.
// (Paper, section 5.1, figure 9: header + blocks of {Trace ID, per channel SendCount and RecvCount}.)
//
// Contract
//   Plain fixed-width fields, little-endian, every offset asserted below. A reader maps the file read-only, waits for
//   `magic`, refuses another `abi_major`, and uses the offsets and strides of the header instead of sizeof. Bytes of
//   unknown fields are zero. The file is /dev/shm/ccld-<pid>-<pid namespace>-<communicator number within the process>.frame.
//   It is registered with CUDA as mapped pinned memory: the GPU writes it with plain stores, nobody ever waits.
//
// Who may write what (nobody writes a word of another writer, and no two writers share a 128-byte line)
//
//   part               writer                              order and validity
//   -----------------  ----------------------------------  -----------------------------------------------------------
//   identity           thread that creates the frame       before `state` becomes `ready`; `magic` is the last store
//   ApiLine            user thread in NCCL calls           each word: relaxed store, increasing
//   AgentLine          diagnostic thread                   each word: relaxed store
//   StateLine          state: thread that ends the         relaxed store, increasing
//                      communicator; hidden: any thread,   a few bits in a communicator's life: atomic or
//                      of which there may be several
//   StreamLine         the stream (CUDA memory operations) single 4-byte stores
//   OpRecord           user thread in NCCL calls           commit = 0, fields, commit = op_seq (release); readers check
//                                                          commit before and after
//   P2pRecord          user thread in NCCL calls           likewise, with the number of the call
//   ProxyRecord        proxy progress thread               each word: relaxed store; `ticks` increases with every visit
//   ProxyTimes         proxy progress thread               `version` is odd while anything changes; readers check it before
//                                                          and after
//   RoundRow, Lane,    GPU threads (one writer per word)   16-byte vector stores that carry their own run (an end: its
//   poll ticks                                             lap), or single 4-byte stores; a row counts only if its run is
//                                                          the wanted one
//
//        OpRecord:  free --enter--> entered --plan launched--> launched        (then overwritten ops_max operations later)
//        RoundRow:  other run --kernel begins--> begin.run = run, token --last thread ends--> end of this lap, with totals
//        Lane:      other run --primitive built--> run, base = current --each post--> current   (--waits--> want, seen, tick)
//
// A run is the n-th kernel of this communicator on a channel, counted by the GPU from 1 without gaps, replays of CUDA
// graphs included: a reader that has seen run n and finds run m in its place knows how many it has missed. The token is
// the host's number of the launch (ApiLine::launched_plan) and joins a run to its OpRecords and P2pRecords; every replay of
// a graph shows the token of its capture, and a replay index of its own.
//
// Steps are connection steps as NCCL counts them (absolute, modulo 2^32), so that both ends of an edge and the proxies
// between them can be compared. While a kernel runs, SendCount of a channel is the sum over its send lanes of current - base;
// RecvCount likewise. Several primitives of one kernel may use a lane one after the other: then it shows the newest. When
// the kernel has ended, its RoundRow has what all of them sent and received, added to that of all kernels before it on
// the channel. So the counts of a kernel are the difference of its totals and those of the run before it, and what ran
// between two rows that were read is known as a sum, whatever was overwritten meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "schemas/abi/round_end.h"

namespace ccld::abi {

constexpr uint32_t frame_magic = 0x444c4343;  // "CCLD"
constexpr uint16_t frame_abi_major = 5;
constexpr uint16_t frame_abi_minor = 1;

// A host may hand CUDA 1024 kernels more than have run, in less time than passes between two looks. The kernel that hangs must
// still have its record then, so twice as many operations are remembered, and of Send and Recv, which come in groups, more.
constexpr unsigned ops_max = 2048;
constexpr unsigned p2ps_max = 4096;
constexpr unsigned replay_slots_max = 4096; // kernels recorded into graphs whose replays are numbered
constexpr unsigned proxies_max = 256;       // connections with a proxy; more are counted in ProxyLine::dropped
constexpr unsigned times_operations = 7;    // of a connection whose times are remembered: an observer looks seldom
// A progress thread comes by every few microseconds. Gaps below the longest tick of kernels (100 Hz) cannot be told.
constexpr uint64_t proxy_away_min_ns = 10'000'000;
constexpr unsigned channels_max = 64;       // NCCL's MAXCHANNELS
constexpr unsigned rounds_max = 128;        // kernels per channel between two looks; of older ones only sums are known
constexpr unsigned warps_max = 32;          // of a block
constexpr unsigned directions = 2;          // Direction
constexpr unsigned lanes_per_direction = 32;
constexpr unsigned lane_groups = 8;         // thread groups (primitives that run at the same time in one block) told apart
constexpr unsigned lane_peers = 4;          // peers of one group told apart
static_assert(lane_groups * lane_peers == lanes_per_direction);

enum class Direction : uint8_t { recv = 0, send = 1 };

// The lane of a peer; groups and peers beyond the limits share lanes (only NVLS and wide point-to-point batches have them).
constexpr unsigned lane_index(unsigned group, unsigned peer_index) {
  return (group % lane_groups) * lane_peers + peer_index % lane_peers;
}

enum class CommState : uint32_t {
  none = 0, initializing = 1, ready = 2, finalized = 3, destroyed = 4, aborted = 5, revoked = 6, init_failed = 7
};

// Stable ids of the wire and the frame; nccl/hooks maps NCCL's own enums to them.
enum class Function : uint8_t {
  unknown = 0, broadcast = 1, reduce = 2, all_gather = 3, reduce_scatter = 4, all_reduce = 5, send = 6, recv = 7,
  all_to_all = 8, gather = 9, scatter = 10, all_gather_v = 11, other = 12
};
enum class Datatype : uint8_t {
  int8 = 0, uint8 = 1, int32 = 2, uint32 = 3, int64 = 4, uint64 = 5, float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9,
  float8_e4m3 = 10, float8_e5m2 = 11, unknown = 255
};
enum class Reduction : uint8_t { sum = 0, prod = 1, max = 2, min = 3, avg = 4, user = 5, none = 255 };
enum class Algorithm : uint8_t {
  tree = 0, ring = 1, collnet_direct = 2, collnet_chain = 3, nvls = 4, nvls_tree = 5, pat = 6, symmetric = 7, copy_engine = 8,
  unknown = 255
};
enum class Protocol : uint8_t { ll = 0, ll128 = 1, simple = 2, unknown = 255 };

enum OpFlag : uint8_t {
  op_no_kernel = 1,  // nothing runs on the GPU for it (zero elements, one rank)
  op_captured = 2,   // recorded into a CUDA graph: it runs when the graph is replayed
  op_grouped = 4,    // issued between ncclGroupStart and ncclGroupEnd
  op_launched = 8,   // its kernel was handed to CUDA
};

// What can be seen of an operation while it runs. A signal that is missing is "not measured", never "not moving".
enum Signal : uint8_t {
  signal_times = 1,   // its kernel writes begin and end on its channels
  signal_steps = 2,   // its kernel counts steps: lanes and totals of RoundRow
  signal_waits = 4,   // its lanes or warps say what they wait for
  signal_proxy = 8,   // proxies may work for it
  signal_stream = 16, // begin and end are written by the stream around it (StreamLine), not by a kernel
};

// What a communicator does where nothing is measured at all. Nothing may be concluded from silence there.
enum Hidden : uint32_t {
  hidden_device_api = 1,  // kernels of the user talk to other GPUs by themselves (ncclDevCommCreate)
  hidden_gin = 2,         // and to the network (GPU-initiated networking)
  hidden_pxn = 4,         // proxies of other ranks send for this one
  hidden_network = 8,     // the network is a plugin: its queues are not seen, only what proxies hand to it
};
constexpr Hidden hidden_all[] = {hidden_device_api, hidden_gin, hidden_pxn, hidden_network};

// ---- header ----------------------------------------------------------------------------------------------------

struct FrameIdentity {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t file_bytes;
  uint32_t channel_count;      // channels that have room in this frame
  uint32_t ops_offset;
  uint32_t ops_stride;
  uint32_t proxies_offset;
  uint32_t proxies_stride;
  uint32_t channels_offset;
  uint32_t channels_stride;
  uint32_t p2ps_offset;
  uint32_t p2ps_stride;
  uint32_t nccl_version;       // 22907
  uint32_t mode;               // ModeFlag: what is measured (the paper's mode flag)
  uint64_t comm_uid;           // CommUid; 0 until the communicator is ready
  uint64_t comm_hash;          // NCCL's own, equal on all ranks, not unique
  uint64_t parent_uid;         // of the communicator that it was split, shrunk or grown from; 0: none
  uint32_t comm_number;        // of this process, from 1
  int32_t rank;
  int32_t rank_count;
  int32_t node;
  int32_t node_count;
  int32_t local_rank;
  int32_t cuda_device;
  uint32_t pid;
  uint64_t pid_start_ticks;    // field 22 of /proc/<pid>/stat: tells a reused pid
  uint64_t created_monotonic_ns;
  char gpu_bus_id[16];         // "0000:10:00.0"
  char host[64];               // host name, or NCCL_HOSTID where it is set
  char boot_id[40];            // equal for all processes of one machine
  char job[64];
  char comm_name[64];
  uint32_t pid_namespace;      // in which pid counts: inode of /proc/self/ns/pid; 0: not known (version 3.0, or not readable)
  uint32_t proxy_times_offset;  // since version 5.1; 0: there are none
  uint32_t proxy_times_stride;
  uint8_t reserved[504 - 388];
  uint64_t end_marker;         // equals frame_magic
};

enum ModeFlag : uint32_t {
  mode_operations = 1,  // OpRecords are written
  mode_steps = 2,       // lanes and rounds are written by the GPU
  mode_proxies = 4,     // ProxyRecords are written
};

struct ApiLine {
  uint64_t entered_op_seq;    // accepted collective calls (the paper's operation counter)
  uint64_t launched_op_seq;   // the newest of them whose kernel was handed to CUDA
  uint64_t launched_plan;     // kernels handed to CUDA; its low 32 bits are the token of the newest
  uint64_t entered_p2p;       // accepted Send and Recv calls
  uint64_t launched_p2p;      // the newest of them whose kernel was handed to CUDA
  uint64_t captured_plans;    // kernels recorded into CUDA graphs: from the first on, kernels may run without a launch
  uint64_t unseen_while_stopped;  // calls that were made while the probe was stopped: numbered, not recorded
  uint64_t reserved[9];
};

struct AgentLine {
  uint64_t heartbeat_monotonic_ns;
  uint64_t completed_op_seq;  // newest operation known to have ended
  uint64_t samples;
  uint64_t lapped_rounds;
  uint64_t summed_kernels;    // whose rows were overwritten before they were read, so that only these sums are known:
  uint64_t summed_busy_ns;    // of the channel with the most
  uint64_t summed_send_steps; // of all channels
  uint64_t summed_recv_steps;
  uint64_t reserved[8];
};

struct StateLine {
  uint32_t state;             // CommState
  uint32_t hidden;            // Hidden; since version 4.1
  uint32_t reserved[30];
};

struct ProxyLine {
  uint64_t ticks;             // visits of the progress thread to operations of this communicator
  uint64_t connections;       // ProxyRecords in use
  uint64_t dropped;           // connections that found no record
  uint64_t reserved[13];
};

// Begin and end of a launch that runs no kernel of ours (symmetric kernels, copy engines): the stream itself stores the
// token before and after it. The newest launch only.
struct StreamLine {
  uint32_t begun_token;
  uint32_t ended_token;
  uint32_t reserved[30];
};

struct alignas(128) FrameHeader {
  FrameIdentity identity;
  ApiLine api;
  AgentLine agent;
  StateLine state;
  ProxyLine proxy;
  StreamLine stream;
};

// ---- host-written rings ----------------------------------------------------------------------------------------

// One collective call: the paper's Trace ID (comm_uid of the header, op_seq) and Operation Type Set.
// Slot: op_seq % ops_max.
struct alignas(128) OpRecord {
  uint64_t commit;              // op_seq once the fields of `enter` are complete; 0 while they are written
  uint64_t count;               // elements as the caller gave them
  uint64_t enter_monotonic_ns;
  uint64_t launch_monotonic_ns; // 0 until launched
  uint64_t channel_mask;        // channels the kernel uses; 0 until launched
  uint32_t plan;                // token of the kernel that carries it; 0 until launched
  int32_t root;                 // -1 where the function has none
  uint8_t function;             // Function
  uint8_t datatype;
  uint8_t reduction;
  uint8_t algorithm;            // unknown until launched
  uint8_t protocol;             // unknown until launched
  uint8_t flags;                // OpFlag; may gain bits after commit
  uint16_t channel_count;       // 0 until launched
  uint32_t replay_slot;         // != 0: recorded into a graph, its replays are numbered
  uint32_t plan_operations;     // collectives that its kernel carries together with it (1: alone); 0 until launched
  uint8_t signals;              // Signal; 0 until launched
  uint8_t reserved[63];
};

// One Send or Recv call. The k-th send of a to b meets the k-th receive of b from a: (communicator, source, destination,
// pair_seq) is the key of both. Slot: the number of the call on this communicator % p2ps_max.
struct alignas(64) P2pRecord {
  uint64_t commit;              // number of the call (ApiLine::entered_p2p); 0 while the fields are written
  uint64_t pair_seq;            // from 1: calls of this direction with this peer
  uint64_t bytes;
  uint64_t enter_monotonic_ns;
  uint64_t launch_monotonic_ns; // 0 until launched
  uint64_t channel_mask;        // channels of the kernel; 0 until launched
  uint32_t plan;                // token of the kernel; 0 until launched
  int32_t peer;
  uint32_t replay_slot;
  uint8_t direction;            // Direction
  uint8_t flags;                // OpFlag; may gain bits after commit
  uint8_t datatype;
  uint8_t signals;              // Signal; 0 until launched
};

// One end of one connection that a proxy thread serves. All step counters are absolute connection steps.
struct alignas(128) ProxyRecord {
  uint64_t connection;          // identity within the process; 0: free
  int32_t peer;
  int32_t channel;
  int32_t net_device;           // -1: not a network transport
  uint8_t direction;            // Direction
  uint8_t reserved0[3];
  uint64_t ticks;               // visits
  uint64_t operation;           // NCCL's opCount of the operation it works for
  uint64_t posted;              // send: credits given to the GPU; recv: receives posted to the network
  uint64_t received;            // recv: arrived from the network
  uint64_t transmitted;         // send: handed to the network; recv: handed to the GPU
  uint64_t done;                // send: the network said sent; recv: the GPU consumed it
  uint64_t base;                // step at which the operation began
  uint64_t step_count;          // steps of the operation
  // Since version 3.2, by CLOCK_MONOTONIC_COARSE, which counts ticks of the kernel (1 to 10 ms).
  uint64_t visited_ns;          // the newest visit
  uint64_t began_ns;            // the first visit to the operation
  // Gaps of at least proxy_away_min_ns between visits to one operation, if there was something to do at their end;
  // summed, never falls.
  uint64_t away_ns;
  uint64_t away_before_ns;      // away_ns when the operation began
};

// When the steps of an operation reached the stages that its proxy sees, told by the proxy itself: an observer who
// looks now and then cannot date them. Of many steps only the later ones count (schemas/wire/link_steps.h).
enum ProxyStage : unsigned { stage_posted, stage_received, stage_transmitted, stage_done, proxy_stages };
struct ProxyOperationTimes {
  uint64_t base;                  // step at which the operation began
  uint64_t began_ns;              // CLOCK_MONOTONIC: the first visit to it
  uint32_t steps[proxy_stages];   // that have reached the stage, of those that count
  uint64_t sum_ns[proxy_stages];  // of their times since began_ns
};

// Of one connection; the same place as its ProxyRecord has.
struct alignas(128) ProxyTimes {
  uint32_t version;           // 0: nothing was ever told, for it would have cost too much
  uint32_t operations_begun;  // the newest one is in operations[(operations_begun - 1) % times_operations]
  uint64_t reserved[7];
  ProxyOperationTimes operations[times_operations];
};

// ---- device-written part ---------------------------------------------------------------------------------------

// A kernel on a channel. Slot: run % rounds_max. Three 16-byte rows, each valid if it is of the wanted run.
struct alignas(64) RoundRow {
  uint32_t begin_run;
  uint32_t begin_token;
  uint64_t begin_device_ns;     // globaltimer of this GPU: compare with this GPU only
  uint32_t end_word;            // pack_end(): lap of the run, flag, time from begin to end
  uint32_t send_steps_total;    // SendCounts and RecvCounts of all kernels up to this one on this channel, modulo 2^32
  uint32_t recv_steps_total;
  uint32_t busy_ns_total;       // their times from begin to end, modulo 2^32
  uint32_t replay_run;          // only on the lowest channel of a kernel that was recorded into a graph; with the begin
  uint32_t replay_index;        // from 1
  uint32_t replay_reserved[2];
  uint32_t reserved[4];
};
static_assert(lap_runs == rounds_max);

enum class WaitKind : uint32_t {
  none = 0,
  data = 1,    // a receive lane waits for step `want` from its peer
  credit = 2,  // a send lane waits for its peer (or proxy) to free the slot of step `want`
};

// One peer of one primitive, in one direction.
struct alignas(32) Lane {
  uint32_t run;
  uint32_t current_step;
  uint32_t base_step;
  uint32_t peer_and_warps;      // peer rank in bits 0..19, first warp of the group in 20..24, warps - 1 in 25..29, bit 31 set
  uint32_t want_step;           // valid while want_step > current_step (as signed difference) and poll_tick moves
  uint32_t seen_step;           // what the peer had made available when this was written; Simple: at least, in whole slices
  uint32_t poll_tick;           // changes as long as the wait goes on
  uint32_t wait_kind;           // WaitKind
};

constexpr uint32_t lane_peer(uint32_t peer_and_warps) { return peer_and_warps & 0xfffffu; }
constexpr uint32_t lane_first_warp(uint32_t peer_and_warps) { return (peer_and_warps >> 20) & 31u; }
constexpr uint32_t lane_warp_count(uint32_t peer_and_warps) { return ((peer_and_warps >> 25) & 31u) + 1; }
constexpr uint32_t lane_in_use = 1u << 31;
constexpr uint32_t pack_peer_and_warps(uint32_t peer, uint32_t first_warp, uint32_t warp_count) {
  return lane_in_use | (peer & 0xfffffu) | ((first_warp & 31u) << 20) | (((warp_count - 1) & 31u) << 25);
}

struct alignas(128) DeviceChannel {
  RoundRow rounds[rounds_max];
  uint32_t warp_poll_tick[warps_max];  // changes while any thread of the warp polls without success
  Lane lanes[directions][lanes_per_direction];
};

// Behind the header: OpRecords, P2pRecords, ProxyRecords, ProxyTimes, DeviceChannels.
constexpr size_t frame_bytes(unsigned channel_count) {
  return sizeof(FrameHeader) + ops_max * sizeof(OpRecord) + p2ps_max * sizeof(P2pRecord) +
         proxies_max * (sizeof(ProxyRecord) + sizeof(ProxyTimes)) + channel_count * sizeof(DeviceChannel);
}

static_assert(sizeof(FrameIdentity) == 512);
static_assert(offsetof(FrameIdentity, comm_uid) == 56);
static_assert(offsetof(FrameIdentity, rank) == 84);
static_assert(offsetof(FrameIdentity, pid_start_ticks) == 112);
static_assert(offsetof(FrameIdentity, gpu_bus_id) == 128);
static_assert(offsetof(FrameIdentity, comm_name) == 312);
static_assert(offsetof(FrameIdentity, pid_namespace) == 376);
static_assert(offsetof(FrameIdentity, proxy_times_offset) == 380);
static_assert(offsetof(FrameIdentity, end_marker) == 504);
static_assert(sizeof(ApiLine) == 128 && sizeof(AgentLine) == 128 && sizeof(StateLine) == 128 && sizeof(ProxyLine) == 128 &&
              sizeof(StreamLine) == 128);
static_assert(offsetof(FrameHeader, api) == 512);
static_assert(offsetof(FrameHeader, agent) == 640);
static_assert(offsetof(FrameHeader, state) == 768);
static_assert(offsetof(FrameHeader, proxy) == 896);
static_assert(offsetof(FrameHeader, stream) == 1024);
static_assert(sizeof(FrameHeader) == 1152);
static_assert(sizeof(OpRecord) == 128);
static_assert(offsetof(OpRecord, plan) == 40 && offsetof(OpRecord, function) == 48 && offsetof(OpRecord, channel_count) == 54 &&
              offsetof(OpRecord, replay_slot) == 56 && offsetof(OpRecord, signals) == 64);
static_assert(sizeof(ProxyRecord) == 128);
static_assert(sizeof(ProxyOperationTimes) == 64 && sizeof(ProxyTimes) == 512);
static_assert(offsetof(ProxyRecord, ticks) == 24 && offsetof(ProxyRecord, step_count) == 80);
static_assert(offsetof(ProxyRecord, visited_ns) == 88 && offsetof(ProxyRecord, away_before_ns) == 112);
static_assert(sizeof(P2pRecord) == 64 && offsetof(P2pRecord, plan) == 48 && offsetof(P2pRecord, signals) == 63);
static_assert(sizeof(RoundRow) == 64 && offsetof(RoundRow, end_word) == 16 && offsetof(RoundRow, replay_run) == 32);
static_assert(sizeof(Lane) == 32 && offsetof(Lane, want_step) == 16);
static_assert(sizeof(DeviceChannel) == 128 * 64 + 128 + 2 * 32 * 32);
static_assert(offsetof(DeviceChannel, lanes) == 8320);

}  // namespace ccld::abi
