// Who is where and who talks to whom: processes (one GPU each) on hosts, and their communicators.
// Ranks of a job are laid out as Megatron does by default: tensor fastest, then data, then pipeline.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace ccld::sim {

enum class CommKind { tensor, pipeline, data, expert, world };
const char* name(CommKind);

struct CommSpec {
  CommKind kind;
  uint64_t uid = 0;
  std::string name;
  std::vector<int> members;  // processes, by rank
  int ranks() const { return static_cast<int>(members.size()); }
};

struct LayoutSizes {
  int tensor = 1, pipeline = 1, data = 1, expert = 1;
  int gpus_per_host = 8;
  bool world = true;  // also a communicator of all
  uint64_t uid_base = 0xc0de0000;
  int processes() const { return tensor * pipeline * data; }
};

class Layout {
 public:
  explicit Layout(const LayoutSizes&);

  const LayoutSizes& sizes() const { return sizes_; }
  int processes() const { return sizes_.processes(); }
  int hosts() const { return (processes() + sizes_.gpus_per_host - 1) / sizes_.gpus_per_host; }
  int host_of(int process) const { return process / sizes_.gpus_per_host; }
  int gpu_of(int process) const { return process % sizes_.gpus_per_host; }
  int stage_of(int process) const { return process / (sizes_.tensor * sizes_.data); }
  int data_index(int process) const { return process / sizes_.tensor % sizes_.data; }
  bool alone_on_host(int process) const {
    const int first = host_of(process) * sizes_.gpus_per_host;
    return std::min(processes() - first, sizes_.gpus_per_host) == 1;
  }
  bool same_host(int a, int b) const { return host_of(a) == host_of(b); }

  const std::vector<CommSpec>& comms() const { return comms_; }
  // Index of the process's communicator of that kind; -1: none.
  int comm_of(int process, CommKind kind) const { return comm_of_[static_cast<size_t>(kind)][process]; }
  int rank_in(int comm, int process) const;
  int comm_with(uint64_t uid) const {  // -1: none of this layout
    return uid >= sizes_.uid_base && uid - sizes_.uid_base < comms_.size() ? static_cast<int>(uid - sizes_.uid_base) : -1;
  }

 private:
  void add(CommKind, std::vector<int> members);
  LayoutSizes sizes_;
  std::vector<CommSpec> comms_;
  std::vector<int> comm_of_[5], rank_of_[5];
};

}  // namespace ccld::sim
