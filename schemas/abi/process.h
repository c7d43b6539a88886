// The process file: one per process, beside the probing frames of its communicators. It carries what belongs to no single
// communicator: what the probe counts about itself, communicators that are being made, the network's work requests, and
// the one place where somebody outside may write: the control line.
//
// Contract
//   Plain fixed-width fields, little-endian, every offset asserted below. A reader maps the file read-only, waits for
//   `magic`, refuses another `abi_major`, and uses the offsets and strides of the header. Bytes of unknown fields are
//   zero. The file is <frames folder>/ccld-<pid>-<pid namespace>.process; it appears whole (made under another name and renamed) and is
//   removed at the end of the process. That it exists says the probe is loaded: it comes before the first communicator.
//
// Who may write what (nobody writes a word of another writer, and no two writers share a 128-byte line)
//
//   part               writer                              order and validity
//   -----------------  ----------------------------------  -----------------------------------------------------------
//   identity           thread that creates the file        before `magic`, which is the last store
//   ControlLine        `ccld tune`, one at a time (flock   sequence odd, fields, sequence even (release); the agent applies a
//                      on the file)                        sequence that is even and newer than the last it applied
//   metrics            the thread that owns the metric     each word: relaxed store. Index: MetricId (metrics.h)
//   InitRecord         thread that makes the communicator  commit = 0, fields, commit = number (release); `stage`, `stage_
//                                                          monotonic_ns` and `result` change afterwards, in this order: time,
//                                                          result, stage
//   NetRecord          progress thread that posts and      each word: relaxed store, increasing
//                      polls on that queue
#pragma once

#include <cstddef>
#include <cstdint>

#include "schemas/abi/metrics.h"

namespace ccld::abi {

constexpr uint32_t process_magic = 0x504c4343;  // "CCLP"
constexpr uint16_t process_abi_major = 1;
constexpr uint16_t process_abi_minor = 2;

constexpr unsigned metrics_max = 128;  // MetricIds below this have a word here
constexpr unsigned inits_max = 64;     // communicators whose initialization is remembered
constexpr unsigned nets_max = 256;     // queues of network devices; more are counted in metric net_records_dropped

struct ProcessIdentityPart {
  uint32_t magic;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t file_bytes;
  uint32_t pid;
  uint64_t pid_start_ticks;
  uint64_t created_monotonic_ns;
  uint32_t metrics_offset;  // uint64_t[metrics_max]
  uint32_t inits_offset;
  uint32_t inits_stride;
  uint32_t nets_offset;
  uint32_t nets_stride;
  uint32_t nccl_version;    // 0: not known yet
  char host[64];
  char boot_id[40];
  char job[64];
  uint32_t pid_namespace;   // as in FrameIdentity
  uint32_t cuda_version;    // of the toolkit that libnccl was built with (cuda_versions.h); since version 1.2, 0: not known yet
  uint32_t driver_cuda_version;  // the newest that this machine's driver supports; likewise
  uint8_t reserved[256 - 236 - 8];
  uint64_t end_marker;      // equals process_magic
};

enum ControlField : uint32_t {  // which fields of a request are meant
  control_running = 1,
  control_sample_us = 2,
  control_log = 4,
  control_endpoint = 8,
  control_budget_ppm = 16,
};
enum class LogVerbosity : uint32_t { warnings = 0, info = 1, trace = 2 };

// Wishes of an operator. The agent says in applied_sequence and `refused` what became of them.
struct ControlLine {
  uint64_t sequence;        // odd: being written
  uint32_t fields;          // ControlField
  uint32_t running;         // 0: stop recording, sampling and sending
  uint32_t sample_us;       // 100 to 1000000
  uint32_t log;             // LogVerbosity
  uint32_t budget_ppm;      // of one core, for each GPU of the process; 0: no budget
  uint32_t reserved0;
  char endpoint[96];        // or several of one service, with commas between them; empty: send nothing
};

struct ControlStateLine {   // written by the agent
  uint64_t applied_sequence;
  uint32_t refused_fields;  // of that request: values out of range, endpoint not usable
  uint32_t running;         // the values in force
  uint32_t sample_us;
  uint32_t log;
  uint32_t budget_ppm;
  uint32_t period_us;       // time between samples now, after the budget
  char endpoint[96];        // of several, the one in use
};

struct alignas(128) ProcessHeader {
  ProcessIdentityPart identity;
  ControlLine control;
  ControlStateLine control_state;
};

// What the probe knows of the service at its endpoint (metric agent_service_state).
enum class ServiceState : uint32_t {
  none = 0,        // nothing is sent, or an older library that does not say
  connecting = 1,  // not known yet
  connected = 2,   // speaks ZeroMQ; whether it takes batches is not known yet
  reached = 3,     // acknowledges batches
  // Of the following nothing is delivered.
  unusable = 4,    // the endpoint, a key or libzmq cannot be used: nothing is sent
  unresolved = 5,  // the name has no address
  refused = 6,     // nothing listens there, or there is no route
  unanswered = 7,  // nobody answers at that address
  mute = 8,        // somebody listens, and does not answer as ZeroMQ does
  deaf = 9,        // speaks ZeroMQ, and has never acknowledged a batch
  stalled = 10,    // connected, and does not acknowledge batches any more
  rejected = 11,   // the service does not accept the key of this process
  one_sided = 12,  // one side demands keys, the other uses none
  other_key = 13,  // ends the handshake: its key is not the one this process was told, it uses none, or it is not ccld serve
};

// How far the initialization of a communicator came on this rank. A stage is reached when its value is stored.
enum class InitStage : uint32_t {
  none = 0,
  entered = 1,       // the call is accepted, other ranks are not known yet
  bootstrapped = 2,  // all ranks have found each other
  connected = 3,     // channels are set up, the frame exists
  ready = 4,
  failed = 5,        // `result` says why
};

// Slot: number % inits_max.
struct alignas(128) InitRecord {
  uint64_t commit;               // number of the communicator's initialization in this process, from 1
  uint64_t comm_hash;            // equal on all ranks that take part; known from `entered` on
  uint64_t enter_monotonic_ns;
  uint64_t stage_monotonic_ns;   // when `stage` was reached
  int32_t rank;
  int32_t rank_count;
  uint32_t stage;                // InitStage
  int32_t result;                // ncclResult_t of a failure
  uint32_t comm_number;          // of the frame; 0 until there is one
  int32_t cuda_device;
  uint8_t reserved[72];
};

enum class NetKind : uint8_t { infiniband = 0, socket = 1 };

// One queue of a network device: a queue pair, or one connection of sockets. Work requests are counted when the device is
// asked to signal them (the last one of a chain), so that posted - completed is what is in flight.
struct alignas(128) NetRecord {
  uint64_t queue;                // identity within the process; 0: free
  uint32_t number;               // queue pair number; 0 for sockets
  int32_t device;                // NCCL's network device index
  uint8_t kind;                  // NetKind
  uint8_t reserved0[7];
  uint64_t send_posted;          // signalled requests handed to the device
  uint64_t send_completed;
  uint64_t send_bytes_posted;
  uint64_t send_bytes_completed;
  uint64_t recv_posted;
  uint64_t recv_completed;
  uint64_t recv_bytes_completed;
  uint64_t post_monotonic_ns;    // newest post
  uint64_t complete_monotonic_ns;
  uint64_t errors;               // completions with an error status
  char device_name[24];          // "mlx5_0", "eth0"; cut
};

static_assert(sizeof(ProcessIdentityPart) == 256);
static_assert(offsetof(ProcessIdentityPart, pid_start_ticks) == 16 && offsetof(ProcessIdentityPart, host) == 56);
static_assert(offsetof(ProcessIdentityPart, pid_namespace) == 224);
static_assert(offsetof(ProcessIdentityPart, end_marker) == 248);
static_assert(sizeof(ControlLine) == 128 && offsetof(ControlLine, endpoint) == 32);
static_assert(sizeof(ControlStateLine) == 128);
static_assert(offsetof(ProcessHeader, control) == 256 && sizeof(ProcessHeader) == 512);
static_assert(sizeof(InitRecord) == 128 && offsetof(InitRecord, stage) == 40);
static_assert(sizeof(NetRecord) == 128 && offsetof(NetRecord, send_posted) == 24);

constexpr size_t process_file_bytes() {
  return sizeof(ProcessHeader) + metrics_max * sizeof(uint64_t) + inits_max * sizeof(InitRecord) +
         nets_max * sizeof(NetRecord);
}

}  // namespace ccld::abi
