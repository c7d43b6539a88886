// What NCCL's own log (NCCL_DEBUG=INFO, subsystems INIT and GRAPH) says of the communicator of this rank: its
// neighbours in rings and trees, how it is connected, and the names of network devices. Upstream's library says the
// same as ours.
//
// Contract
//   Lines that are not understood are left out, so another version of NCCL costs knowledge, never a wrong answer: rings
//   that do not close are refused by the reader of all ranks' answers (plan.cc).
// Threads: any; a pure function.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "decision/validate/group.h"

namespace ccld::decision::validate {

struct Path {
  std::string kind;     // "NET/Socket", "NET/IB/GDRDMA", "P2P/CUMEM", "SHM/direct"
  int net_device = -1;  // -1: none
};

struct NcclLog {
  std::vector<Neighbours> channels;
  std::map<int, Path> sends_to;          // by peer; the newest connection
  std::map<int, std::string> net_names;  // by device
  std::vector<std::string> warnings;     // lines of level WARN, whole
};

NcclLog read_nccl_log(absl::string_view text, int rank);

}  // namespace ccld::decision::validate
