// A point-in-time view of everything the service knows, for `ccld status`. Plain data, made on demand.
#pragma once

#include <string>
#include <vector>

#include "decision/model/events.h"

namespace ccld::decision {

struct RankStatus {
  Rank rank;
  std::string host;
  uint32_t pid = 0;
  int cuda_device = -1;
  std::string gpu_bus_id;
  OpSeq entered, launched, completed;
  Nanoseconds telemetry_age_ns = 0;   // since the last message of its process
  Nanoseconds moved_age_ns = 0;       // since anything of this communicator moved on it
  bool up = false;                    // CommUp seen, CommDown not
  char process_state = '?';           // as siblings report it; '?': not reported
};

struct CommStatus {
  CommUid comm;
  std::string job;
  std::string name;
  int rank_count = 0;
  int ranks_seen = 0;
  OpSeq entered_max, completed_min;
  uint64_t rounds = 0;                // rounds completed by all ranks
  bool in_flight = false;
  OpSeq oldest_op;                    // oldest operation not completed everywhere
  Signature oldest_signature;
  Nanoseconds oldest_age_ns = 0;      // how long it has been in flight
  std::vector<RankStatus> ranks;
};

struct ProcessStatus {
  ProcessId process;
  std::string job;
  Nanoseconds telemetry_age_ns = 0;
  uint64_t batches = 0, lost_batches = 0;
  AgentHealth health;
};

struct StatusView {
  Nanoseconds now_ns = 0;
  std::vector<CommStatus> communicators;
  std::vector<ProcessStatus> processes;
  uint64_t incidents_open = 0;
};

}  // namespace ccld::decision
