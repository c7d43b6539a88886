// The process file: what belongs to no single communicator (schemas/abi/process.h says what, and who may write it).
//
// Contract
//   process_file() makes the file at the first call, before the first communicator: under another name, complete, then
//   renamed. If there is no room or no right to make it, there is one warning and the same memory without a file:
//   counting goes on, only nobody can look at it from outside. Files that an earlier program image of this same process
//   left behind (exec keeps the process id and the start time) are removed first. The file goes with the process; what
//   a killed process leaves is told from others by process id and start time.
//   A forked child neither writes nor removes its parent's files: process_file() is nullptr there.
//
// Threads: process_file() and the functions on metrics, any thread. Making and removing a file by hand: one thread.
// (Paper, section 5.1, goes beyond it: the paper has no place for what is outside of communicators.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "probe/frames/words.h"
#include "schemas/abi/bus_guard.h"
#include "schemas/abi/metrics.h"
#include "schemas/abi/process.h"

namespace ccld::probe {

struct ProcessFileOptions {
  std::string folder;  // NCCL_PROBE_FRAMES_DIR
  std::string job;     // NCCL_PROBE_JOB
  std::string host;    // NCCL_HOSTID or the host name
  bool shared = false;  // NCCL_PROBE_FRAMES_SHARED
};

struct ProcessFile {
  std::string path;  // empty: memory without a file
  void* memory = nullptr;
  size_t bytes = 0;
  abi::BusGuard guard;
  abi::ProcessHeader* header = nullptr;  // parts of the memory
  uint64_t* metrics = nullptr;           // abi::metrics_max
  abi::InitRecord* inits = nullptr;      // abi::inits_max
  abi::NetRecord* nets = nullptr;        // abi::nets_max
};

// nullptr only if there is no memory at all; *error says why there is no file.
ProcessFile* process_file_create(const ProcessFileOptions&, std::string* error);
// Removes the file; the memory stays, since other threads may still count.
void process_file_unlink(ProcessFile&);
// Unmaps and frees; for tests.
void process_file_release(ProcessFile*);

// Removes frames and process files in `folder` that carry this process's id and start time. Only before this image has
// made any of its own. Returns how many.
unsigned remove_files_of_previous_image(const std::string& folder);

// That of this process; nullptr when the probe is disabled and in a forked child.
ProcessFile* process_file();

inline void metric_set(ProcessFile* file, abi::MetricId id, uint64_t value) {
  if (file != nullptr && static_cast<unsigned>(id) < abi::metrics_max)
    store_relaxed(file->metrics[static_cast<unsigned>(id)], value);
}
inline void metric_add(ProcessFile* file, abi::MetricId id, uint64_t value) {
  if (file != nullptr && static_cast<unsigned>(id) < abi::metrics_max)
    __atomic_fetch_add(&file->metrics[static_cast<unsigned>(id)], value, __ATOMIC_RELAXED);
}
inline uint64_t metric_get(const ProcessFile* file, abi::MetricId id) {
  if (file == nullptr || static_cast<unsigned>(id) >= abi::metrics_max) return 0;
  return load_relaxed(file->metrics[static_cast<unsigned>(id)]);
}

}  // namespace ccld::probe
