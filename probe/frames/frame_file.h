// Creates, fills in and removes the file that is a communicator's probing frame.
//
// Contract
//   The file appears complete: it is made under a temporary name, given its size and its process part of the identity,
//   and then renamed. The communicator's part follows with frame_publish_identity. Without room or right for a file the
//   frame lies in memory alone: all is measured and reported, only nobody can look at it from outside. All functions
//   report failure by value and never throw. What CUDA knows as pinned memory is expensive to give back: frames of
//   communicators that have ended can be used again (FrameMemory), under another name and cleared.
//
// Threads: each frame is created, published and removed by one thread at a time; different frames are independent.
// (Paper, section 5.1: the probing frame.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "probe/frames/new_file.h"
#include "probe/probe.h"
#include "schemas/abi/bus_guard.h"
#include "schemas/abi/file_names.h"
#include "schemas/abi/frame.h"

namespace ccld::probe {

struct Comm;

// What identifies this process to a reader of frames. Read once, then constant.
struct ProcessIdentity {
  abi::ProcessName name;
  uint64_t start_ticks;  // field 22 of /proc/self/stat; 0: not readable
  std::string boot_id;   // /proc/sys/kernel/random/boot_id; empty: not readable
};
const ProcessIdentity& process_identity();
// The same field for another process; 0 when it does not exist (any more).
uint64_t process_start_ticks(uint32_t pid);

struct FrameOptions {
  std::string folder;  // NCCL_PROBE_FRAMES_DIR
  std::string job;     // NCCL_PROBE_JOB
  bool shared = false;  // NCCL_PROBE_FRAMES_SHARED
  std::string host;     // of the process file: who looks at frames knows from the first moment whose it is
};
// The identities of the communicators of one process: see comm_uid.
class CommUids {
 public:
  static constexpr size_t remembered_max = 4096;
  uint64_t next(uint64_t comm_hash, const MemberId* members, size_t member_count, int rank);

 private:
  std::mutex mutex_;
  std::unordered_map<uint64_t, uint32_t> made_;  // (hash, members, rank) -> how many
  std::vector<uint64_t> order_;                  // keys of made_ as a ring, the oldest at `oldest_` once it is full
  size_t oldest_ = 0;
};

// The work of comm_create once the settings are known. nullptr and a reason in *error if it cannot; a reason alone if
// there is no file (then `path` is empty).
Comm* frame_create(const FrameOptions&, const CommSetup&, std::string* error);

// Fills in what is known when the communicator is ready and sets its state to `ready`. Called by comm_ready.
void frame_publish_identity(Comm&, const CommIdentity&);

// Stores the state; only ever to a higher one. Called by comm_end.
void frame_set_state(Comm&, abi::CommState);

// Gives the file a name that no reader looks for, until another communicator uses it or the process ends. Called by
// comm_end.
void frame_hide(Comm&);
// Removes the file; the mapping stays valid.
void frame_unlink(Comm&);

struct FrameMemory {
  void* memory;
  size_t bytes;
  std::string path;  // of a spare file; empty: none
  FileId file;       // which one it is
  bool borrowed;
  abi::BusGuard guard;
};

}  // namespace ccld::probe
