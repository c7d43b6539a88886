// What the NCCL hooks call: the probe's only door. Knows nothing of NCCL and nothing of CUDA.
// (Paper, section 5: decentralized Trace IDs, one probing frame per communicator and rank, host-driven measurement.)
//
// Contract
//   Everything fails open: a call that cannot do its work returns nullptr or does nothing, after at most one warning
//   through `Log`. Functions marked HOT run in the training path: they take no lock, allocate nothing, make no system
//   call besides reading the clock, and accept a null communicator.
//
// Threads
//   comm_create/ready/end: any thread, once each, in this order. HOT functions of one communicator: the one thread that is in an NCCL
//   call on it. proxy functions: the proxy progress thread. The diagnostic thread is started by the first
//   comm_ready and ends with the process; comm_end detaches the communicator before it returns, so that the caller may free
//   (or unregister) the frame's memory after release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "schemas/abi/frame.h"
#include "schemas/abi/process.h"

namespace ccld::probe {

enum class LogLevel { info, warning };
using Log = void (*)(LogLevel, const char* line);

// Before anything else, once per process. Reads the settings (probe/settings.h) from the environment; a wrong value is one
// warning that names the variable, and its default is used.
void set_log(Log);
// False when NCCL_PROBE_ENABLE=0: then nothing else of the probe does anything.
bool enabled();

// ---- communicators that are being made ----------------------------------------------------------------------------

// `comm_hash` is equal on all ranks that take part. Returns the number of the initialization (from 1), 0 when disabled. Any thread.
uint64_t init_entered(uint64_t comm_hash, int rank, int rank_count, int cuda_device);
// Further stages of that initialization; 0 is ignored. `result` is NCCL's, of a failure; `comm_number` is that of the frame, 0: none.
void init_reached(uint64_t initialization, abi::InitStage, int result, uint32_t comm_number);

struct Comm;         // one communicator as the probe sees it
struct FrameMemory;  // memory that was a frame, and its file if it has one

struct CommSetup {
  int rank;
  int rank_count;
  int cuda_device;
  unsigned channel_count;      // channels that may ever run (collectives and point-to-point)
  uint32_t nccl_version;
  uint32_t cuda_version = 0, driver_cuda_version = 0;  // of the process file
  FrameMemory* spare = nullptr;  // to be used in place of new memory, if it is large enough; gone once there is a Comm
};
// Creates the frame file and maps it. nullptr: disabled or not possible (warned once).
Comm* comm_create(const CommSetup&);
// Right after comm_create: the frame moves into `memory` of frame_size bytes, which stays the caller's, and has no file
// any more.
void comm_move(Comm*, void* memory);
// A communicator lives without a frame because its owner could not use it (metric agent_comms_unwatched; comm_create counts
// its own failures).
void comm_unwatched();
// The mapping, to be registered with CUDA as mapped pinned memory.
void* frame_memory(const Comm*);
size_t frame_size(const Comm*);
// Offset of the first abi::DeviceChannel in the mapping.
size_t device_channels_offset(const Comm*);

struct ChannelTopology {
  int channel;
  int ring_prev, ring_next;
  int tree_up;
  int tree_down[3];            // -1: none
  int tree_depth;              // -1: unknown
};

struct CommIdentity {
  uint64_t comm_uid;           // see comm_uid() below
  uint64_t comm_hash;
  int node;
  int node_count;
  int local_rank;
  std::string gpu_bus_id;
  std::string host;            // NCCL_HOSTID or the host name
  std::string comm_name;
  std::vector<ChannelTopology> channels;
  uint64_t parent_uid = 0;     // see abi::FrameIdentity
  // What NCCL says of the communicator now; called by the diagnostic thread until comm_end returns. May be null.
  abi::CommState (*current_state)(const void* context) = nullptr;
  const void* state_context = nullptr;
};
void comm_ready(Comm*, const CommIdentity&);

// 64-bit identity of a communicator that all its members compute alike without talking: NCCL's hash is not unique. Neither
// are hash and members together: a communicator may be shrunk twice to the same members. So the k-th communicator of a
// rank with the same hash and members gets a k of its own; every member has been in all of them, and counts alike. Each call
// counts. Remembered are the newest 4096 pairs of hash and members; a pair that comes again after that starts anew.
struct MemberId {
  uint64_t host_hash, pid_hash;
  int64_t bus_id;
};
uint64_t comm_uid(uint64_t comm_hash, const MemberId* members, size_t member_count, int rank);

// A connection that goes through a network device, for the topology message. Any thread, before or after comm_ready.
void net_connection(Comm*, abi::Direction, int channel, int peer, int net_device, const char* net_name);

// From now on the communicator does something where nothing is measured: abi::Hidden. Any thread.
void comm_hides(Comm*, uint32_t hidden);

// The communicator ends. Detaches the diagnostic thread and removes the frame file; afterwards HOT functions must not
// be called any more. `end_state` says how: finalized, destroyed, aborted.
void comm_end(Comm*, abi::CommState end_state);
// Unmaps the frame and frees the object; after the caller has unregistered the memory.
void comm_release(Comm*);
// Frees the object alone: the memory can be another communicator's frame later. nullptr: it cannot, and stays as it is.
FrameMemory* comm_retire(Comm*);
void* frame_memory_address(const FrameMemory*);
size_t frame_memory_size(const FrameMemory*);
// False: somebody has truncated its file, so it can be nobody's frame any more. Not seen if the file was removed, or
// has grown again, before this process has touched a page that it had lost.
bool frame_memory_intact(const FrameMemory*);
// Unmaps it, unless it is the caller's, and removes its file.
void frame_memory_release(FrameMemory*);

// ---- hardware tests of a running job (probe/hold/) -----------------------------------------------------------------

// Whether the user allowed them (NCCL_PROBE_VALIDATE=1). Then hold_is_due() (HOT) says before a call whether it is asked to
// wait, and hold_here() waits, for a bounded time. `captured`: the call is recorded into a CUDA graph.
bool may_hold();
bool hold_is_due(const Comm*, bool collective);
void hold_here(Comm*, bool collective, bool captured);

// ---- HOT -------------------------------------------------------------------------------------------------------

struct Operation {
  abi::Function function;
  abi::Datatype datatype;
  abi::Reduction reduction;
  uint8_t flags;               // abi::OpFlag
  int32_t root;                // -1: none
  uint64_t count;
};
// A collective call was accepted: returns its op_seq (from 1), 0 if `comm` is null.
// While the probe is stopped the call is numbered, so that ranks agree afterwards, but not recorded.
uint64_t operation_entered(Comm*, const Operation&);
struct PointToPoint {
  abi::Direction direction;
  abi::Datatype datatype;
  uint8_t flags;               // abi::OpFlag
  int32_t peer;
  uint64_t bytes;
};
// A Send or Recv call was accepted: returns the number of the call on this communicator (from 1), 0 if it is not recorded.
uint64_t p2p_entered(Comm*, const PointToPoint&);
// The next call is the first of a group.
void group_begins(Comm*);
// None of the group's calls is made: NCCL has only estimated their time. The next calls get their numbers, as on ranks
// that have simulated nothing.
void group_simulated(Comm*);
// The calls turned out to be recorded into a CUDA graph. 0 is ignored.
void operation_captured(Comm*, uint64_t op_seq);
void p2p_captured(Comm*, uint64_t call);

struct Plan {
  uint32_t token = 0;          // never 0 for a kernel that is watched
  uint32_t replay_slot = 0;    // 1 to replay_slots_max; 0: not captured, no rounds, or no slot left
};
// A kernel is about to be launched, or to be recorded into a graph. Slots are for those that write rounds.
Plan plan_begins(Comm*, bool captured, bool writes_rounds = true);

struct PlanShape {
  abi::Algorithm algorithm;
  abi::Protocol protocol;
  unsigned channel_count;
  uint64_t channel_mask;
  uint8_t signals;             // abi::Signal
};
// Operation `op_seq` (call `call`) is carried by kernel `plan`.
void operation_planned(Comm*, uint64_t op_seq, const Plan&, const PlanShape&);
void p2p_planned(Comm*, uint64_t call, const Plan&, const PlanShape&);
// Nothing runs for `call`. 0 is ignored.
void p2p_dropped(Comm*, uint64_t call);
// Some of the signals that were promised for `plan` cannot be given after all. Before plan_launched.
void plan_loses_signals(Comm*, const Plan&, uint8_t signals);
// The kernel was handed to CUDA, or to the graph (or was not: `launched` false).
void plan_launched(Comm*, const Plan&, bool launched);

// ---- proxy progress thread -------------------------------------------------------------------------------------

struct ProxySteps {
  uint64_t connection;         // address of the connection
  int peer;
  int channel;
  int net_device;
  abi::Direction direction;
  uint64_t operation;
  uint64_t base, posted, received, transmitted, done, step_count;  // absolute connection steps
  uint64_t now_ns;             // CLOCK_MONOTONIC_COARSE
  uint64_t (*exact_ns)();      // CLOCK_MONOTONIC, read only where something has moved; nullptr: that costs too much
};
void proxy_visited(Comm*, const ProxySteps&);

// ---- network progress: the thread that posts and polls ---------------------------------------------------------------

// One queue of a network device, found once and kept by the caller. nullptr: not watched (and counted). Any thread.
struct NetQueue;
NetQueue* net_queue(abi::NetKind, uint64_t queue, uint32_t number, int device, const char* device_name);
// Work requests that will be signalled were handed to the device; sockets: bytes that were asked to be sent.
void net_posted(NetQueue*, abi::Direction, uint32_t requests, uint64_t bytes);
// Completions; sockets: bytes that were taken by the kernel. `failed`: with an error status. A completion of a send does
// not say how many bytes it completed: with net_bytes_as_posted the queue remembers what was posted for it (completions
// come in the order of the posts).
constexpr uint64_t net_bytes_as_posted = ~uint64_t{0};
void net_completed(NetQueue*, abi::Direction, uint32_t requests, uint64_t bytes, bool failed);
// The queue is destroyed.
void net_queue_closed(NetQueue*);

}  // namespace ccld::probe
