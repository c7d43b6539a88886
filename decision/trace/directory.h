// Who takes part in a recording: its GPUs, how they are numbered, and which communicators they belong to.
//
// Contract: see() every batch, then number() once; after that only reading. A GPU is one of a process: it has one number in
// the trace, and a rank of its own in each communicator. If one communicator has all GPUs, its ranks are the numbers, else
// they are counted by host and GPU. Bounded by memberships_max; what comes beyond is counted. Threads: one.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "decision/model/events.h"
#include "decision/settings.h"

namespace ccld::decision::trace {

constexpr int nobody = -1;

struct DirectoryGpu {
  size_t process = 0;  // GPUs of a process have equal ones
  int32_t number = 0;  // in the trace
  std::string host, job, bus_id;
  uint32_t pid = 0;
  int cuda_device = 0;
  struct Membership {
    CommUid comm;
    Rank rank;
    std::vector<int32_t> neighbours;  // in its rings, ranks
  };
  std::vector<Membership> memberships;
};

struct DirectoryComm {
  std::string name;  // empty: it has none
  int rank_count = 0;
  size_t order = 0;          // in which they were first heard of
  std::map<Rank, int> gpus;  // indices
  std::string label(CommUid) const;
};

class Directory {
 public:
  explicit Directory(const Settings& settings) : settings_(settings) {}
  void see(const Batch&);
  void number();

  // By number.
  const std::vector<DirectoryGpu>& gpus() const { return gpus_; }
  const DirectoryComm* comm(CommUid) const;             // nullptr: it was never described
  int gpu(CommUid, Rank) const;                         // index; nobody: it was never described
  int numbered(int32_t number) const;                   // index; nobody: there is none
  size_t process(const Batch&) const;                   // process_count(): not known
  size_t process_count() const { return processes_.size(); }
  bool numbered_by_communicator() const { return by_communicator_; }
  uint64_t left_out() const { return left_out_; }  // memberships beyond the bound

 private:
  // The host may get its name later.
  using ProcessKey = std::tuple<std::string, uint32_t, uint32_t, uint64_t>;
  static ProcessKey key_of(const ProcessId& id) { return {id.boot_id, id.pid_namespace, id.pid, id.pid_start_ticks}; }

  const Settings& settings_;
  std::vector<DirectoryGpu> gpus_;
  std::map<ProcessKey, size_t> processes_;
  std::map<std::pair<size_t, int>, int> gpu_of_;  // by process and CUDA device
  absl::flat_hash_map<CommUid, DirectoryComm> comms_;
  size_t memberships_ = 0;
  uint64_t left_out_ = 0;
  bool by_communicator_ = false;
};

}  // namespace ccld::decision::trace
