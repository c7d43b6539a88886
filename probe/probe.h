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

namespace ccld::probe {

enum class LogLevel { info, warning };
using Log = void (*)(LogLevel, const char* line);

// Before anything else, once per process. Reads the settings (probe/settings.h) from the environment; a wrong value is one
// warning that names the variable, and its default is used.
void set_log(Log);
// False when NCCL_PROBE_ENABLE=0: then nothing else of the probe does anything.
bool enabled();

struct Comm;  // one communicator as the probe sees it

struct CommSetup {
  int rank;
  int rank_count;
  int cuda_device;
  unsigned channel_count;      // channels that may ever run (collectives and point-to-point)
  uint32_t nccl_version;
};
// Creates the frame file and maps it. nullptr: disabled or not possible (warned once).
Comm* comm_create(const CommSetup&);
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
};
void comm_ready(Comm*, const CommIdentity&);

// 64-bit identity of a communicator that all its members compute alike without talking: NCCL's hash is not unique.
struct MemberId {
  uint64_t host_hash, pid_hash;
  int64_t bus_id;
};
uint64_t comm_uid(uint64_t comm_hash, const MemberId* members, size_t member_count);

// A connection that goes through a network device, for the topology message. Any thread, before or after comm_ready.
void net_connection(Comm*, abi::Direction, int channel, int peer, int net_device, const char* net_name);

// The communicator ends. Detaches the diagnostic thread and removes the frame file; afterwards HOT functions must not
// be called any more. `end_state` says how: finalized, destroyed, aborted.
void comm_end(Comm*, abi::CommState end_state);
// Unmaps the frame and frees the object; after the caller has unregistered the memory.
void comm_release(Comm*);

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
uint64_t operation_entered(Comm*, const Operation&);
// Send or Recv was accepted.
void p2p_entered(Comm*);

// A kernel is about to be launched: returns its token (never 0), 0 if `comm` is null.
uint32_t plan_begins(Comm*);
// Operation `op_seq` is carried by kernel `plan`.
void operation_planned(Comm*, uint64_t op_seq, uint32_t plan, abi::Algorithm, abi::Protocol, unsigned channel_count,
                       uint64_t channel_mask);
// The kernel was handed to CUDA (or was not: `launched` false).
void plan_launched(Comm*, uint32_t plan, bool launched);

// ---- proxy progress thread -------------------------------------------------------------------------------------

struct ProxySteps {
  uint64_t connection;         // address of the connection
  int peer;
  int channel;
  int net_device;
  abi::Direction direction;
  uint64_t operation;
  uint64_t base, posted, received, transmitted, done, step_count;  // absolute connection steps
};
void proxy_visited(Comm*, const ProxySteps&);

}  // namespace ccld::probe
