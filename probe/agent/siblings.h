// The other watched processes of this machine, as this process sees them: evidence about one that cannot speak any
// more.
//
// Contract
//   A sibling is a process with a frame in the frames folder that has the same boot id and the same `host` text (fake
//   nodes on one machine differ in it). Its state is the letter of /proc/<pid>/stat; one that is not there any more has
//   state 'X', reported for `gone_reported_ns`, from the last sign of life in its frames on. Processes of other pid
//   namespaces, which are not to be seen there, are no siblings. Frames of processes of this machine that are gone for
//   longer than `keep_ns` are removed, whatever their host text and namespace. Nothing here fails: what cannot be read
//   is skipped.
//   Of one that is stopped or gone the frames are read, again at ever longer intervals: its GPU may still run.
//
// Threads: the diagnostic thread. Makes system calls (opendir, open, read, unlink).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "probe/agent/clock.h"
#include "probe/transport/messages.h"
#include "schemas/abi/file_names.h"

namespace ccld::probe {

struct SiblingOptions {
  std::string frames_dir;
  std::string proc_dir = "/proc";
  std::string boot_id;
  std::string host;
  abi::ProcessName own;
  uint64_t keep_ns = 0;
};

constexpr uint64_t gone_reported_ns = 60 * ns_per_s;
constexpr uint64_t file_reread_ns = 30 * ns_per_s;
// Frames of a process that cannot speak are read again after so long, then after twice that, and so on.
constexpr uint64_t last_reread_ns_min = ns_per_s;
// So many of its frames are read, by the names of their files.
constexpr size_t last_frames_max = 64;

class Siblings {
 public:
  explicit Siblings(const SiblingOptions&);

  // Looks for frames: new siblings, and stale files to remove. Costs a directory listing, and one small read of each
  // file that is new or was read long ago (`file_reread_ns`).
  void scan(Instant now);
  // Reads the state of every known sibling. True: one of them has just left.
  bool poll(Instant now);
  std::vector<SiblingState> states(Instant now) const;

 private:
  struct Process {
    char state = '?';
    bool has_frame = false;
    uint64_t state_since_ns = 0;
    uint64_t polled_ns = 0;     // last time that it had not left
    uint64_t next_read_ns = 0;  // of its frames, if it cannot speak
    uint64_t read_pause_ns = last_reread_ns_min;
    std::vector<LastOperations> last_operations;
  };
  using Key = std::pair<uint32_t, uint64_t>;  // pid, start ticks

  // What a frame file said when it was read.
  struct File {
    Key process;
    bool of_sibling = false;
    uint64_t read_ns = 0;
    uint64_t scan = 0;  // the newest that met it
  };
  // Nothing if it tells nothing now. Removes it if it is stale.
  File read_frame(const std::string& path, const abi::ProcessName&, Instant now);

  void read_last(const Key&, Process&, Instant now);
  // Newest heartbeat of its frames; 0: they have none.
  uint64_t last_sign_ns(const Key&) const;

  // Letter of the process, 'X' if there is no such process (any more), 'Z' already while it exits.
  char read_state(const Key&) const;
  // That of a process that is gone.
  void remove_spare(const std::string& path, const abi::ProcessName&) const;

  const SiblingOptions options_;
  std::map<Key, Process> processes_;
  std::map<std::string, File> files_;  // by name
  uint64_t scans_ = 0;
};

}  // namespace ccld::probe
