// How many micro-batches each data-parallel replica takes, as a file says that is read while the job runs.
//
// Contract
//   {"from_round": 120, "micro_batches": [9, 9, 9, 5]}
//     from_round     the first round with these numbers. All ranks must have read them by then, or replicas do not fit
//     together any
//                    more: write the file two rounds ahead (ranks are at most one round apart)
//     micro_batches  by replica (data index), 1 to 64 each
//   The file is read again when its modification time, size or inode changed; replace it by renaming. A missing file
//   changes nothing.
// Errors: a text that cannot be used is one line on stderr that names the field; the previous numbers stay in force.
// Threads: one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ccld::workload {

struct MicroBatches {
  uint64_t from_round = 0;
  std::vector<int> counts;  // by replica; empty: as the options say
};

// Throws std::invalid_argument with one line that names the field.
MicroBatches parse_micro_batches(const std::string& json, int replicas);

class MicroBatchFile {
 public:
  // `path`: empty: none.
  MicroBatchFile(std::string path, int replicas) : path_(std::move(path)), replicas_(replicas) {}

  // Reads the file if it changed.
  void refresh();
  // What the replica takes in this round, if `usual` is what the options say.
  int count(uint64_t round, int replica, int usual);

 private:
  const std::string path_;
  const int replicas_;
  struct stat seen_ = {};
  MicroBatches now_, next_;
};

}  // namespace ccld::workload
