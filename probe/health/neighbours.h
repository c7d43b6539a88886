// The other watched processes of this machine, by their process files: who speaks for the host, so that what concerns
// all is read once, and what is left of processes that are gone.
//
// Contract
//   The living process with the lowest process id speaks. Never fails: what cannot be read, or is another user's,
//   counts as not there, so that in doubt several speak: each user has a speaker. Processes of another pid namespace
//   that share the folder look like gone ones: each namespace has a speaker. A process file of this boot whose process
//   is gone and whose counters have not moved for `keep_ns` is removed; the counters tell a process of another
//   namespace, which is only not to be seen, from one that has ended.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "schemas/abi/file_names.h"

namespace ccld::probe {

struct NeighbourOptions {
  std::string frames_dir;
  abi::ProcessName own;
  std::string boot_id;
  uint64_t keep_ns = 0;  // NCCL_PROBE_STALE_KEEP_S
};

class Neighbours {
 public:
  explicit Neighbours(const NeighbourOptions& options) : options_(options) {}
  // Returns whether this process speaks for the host.
  bool look(uint64_t now_ns);

 private:
  struct Silent {
    uint64_t counters = 0;
    uint64_t since_ns = 0;
  };
  const NeighbourOptions options_;
  std::map<std::string, Silent> silent_;  // by path
};

}  // namespace ccld::probe
