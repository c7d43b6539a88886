// A point-in-time view of everything the service knows, for `ccld status`. Plain data, made on demand.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decision/model/call_history.h"
#include "decision/model/call_record.h"
#include "decision/model/events.h"
#include "decision/model/let_go.h"
#include "decision/model/metric_table.h"
#include "decision/model/processes.h"

namespace ccld::decision {

struct RankStatus {
  Rank rank;
  std::string host;
  uint32_t pid = 0;
  int cuda_device = -1;
  std::string gpu_bus_id;
  OpSeq entered, launched, completed;
  Nanoseconds telemetry_age_ns = 0;  // since the last message of its process
  Nanoseconds moved_age_ns = 0;      // since anything of this communicator moved on it
  bool up = false;                   // CommUp seen, CommDown not
  char process_state = '?';          // as siblings report it; '?': not reported
  bool watched = true;               // false: an operator has stopped its probe
  bool begun = false;                // the oldest operation that it has entered and not completed runs on its GPU
  uint32_t p2p_in_flight = 0;        // Send and Recv calls that have not ended
  Nanoseconds p2p_age_ns = 0;        // of the oldest of them
  uint64_t p2p_rounds = 0;           // that have ended
  RoundKey replay;                   // of a graph, that its GPU is in; 0: none
};

// For so many ranks it is told rank by rank on which channels they wait: what a person looks at one by one.
constexpr size_t waiting_channels_ranks_max = 64;

struct CommStatus {
  CommUid comm;
  std::string job;
  std::string name;
  int rank_count = 0;
  int ranks_seen = 0;
  OpSeq entered_max, completed_min;
  uint64_t rounds = 0;         // rounds completed by all ranks
  uint64_t replays = 0;        // replays of them in graphs, completed by all ranks
  CommUid parent;              // 0: none
  uint64_t p2p_in_flight = 0;  // over all ranks, as the next two
  uint64_t p2p_rounds = 0;
  Nanoseconds p2p_age_ns = 0;  // of the oldest call in flight
  int ranks_not_watched = 0;
  uint32_t hidden = 0;  // abi::Hidden, of any rank
  Nanoseconds telemetry_age_ns = 0;  // of the rank that is up and was not heard of for longest
  bool in_flight = false;
  OpSeq oldest_op;  // oldest operation not completed everywhere
  Signature oldest_signature;
  Nanoseconds oldest_age_ns = 0;  // how long it has been in flight
  std::vector<RankStatus> ranks;
  std::vector<uint64_t> waiting_channels;  // a bit each; by position in `ranks`. Empty: nobody waits, or too many ranks
  std::shared_ptr<const CallHistory::Buckets> call_history;  // nullptr: no calls so far
};

// The newest calls of a communicator, the oldest of them first.
struct CommCalls {
  CommUid comm;
  std::vector<std::shared_ptr<const RecordedCall>> calls;
};

// A communicator being initialized, or whose initialization failed.
struct InitRankStatus {
  Rank rank;
  std::string host;
  uint32_t pid = 0;
  abi::InitStage stage = abi::InitStage::none;
  Nanoseconds stage_age_ns = 0;
  int32_t result = 0;  // ncclResult_t of a failure
};
struct InitStatus {
  std::string job;
  uint64_t comm_hash = 0;
  int rank_count = 0;
  Nanoseconds age_ns = 0;  // since its first rank began
  bool failed = false;
  std::vector<InitRankStatus> ranks;  // those heard of
  size_t never_heard_count = 0;
  std::vector<Rank> never_heard;  // the first of them
};

struct NetQueueTotals {
  uint32_t queues_in_flight = 0;  // with requests in flight
  uint32_t queues_stuck = 0;      // of them, those without a completion for long (queue_stuck_ns)
  uint64_t requests_in_flight = 0;
};

// Whether a process still sends telemetry, and whether it should. Ended: it has ended all its communicators before.
enum class Presence : uint8_t { heard, silent, ended };

struct ProcessStatus {
  ProcessId process;
  std::string job;
  Nanoseconds telemetry_age_ns = 0;
  bool has_finished = false;  // it has ended all its communicators
  uint64_t batches = 0, lost_batches = 0;
  uint64_t undelivered_batches = 0;  // as its probe says
  AgentHealth health;
  std::shared_ptr<const MetricTable> metrics;  // nullptr: none
  NetQueueList net_queues;  // small: there are as many processes as GPUs
  NetQueueTotals net;       // of them
  std::optional<ControlState> control;
  bool probe_stopped = false;

  Presence presence(Nanoseconds silent_ns) const {
    if (telemetry_age_ns < silent_ns) return Presence::heard;
    return has_finished ? Presence::ended : Presence::silent;
  }
};

struct StatusView {
  Nanoseconds now_ns = 0;
  std::vector<CommStatus> communicators;
  std::vector<ProcessStatus> processes;
  std::vector<InitStatus> inits;
  std::vector<CommCalls> calls;  // by comm; of those that an open incident names
  uint64_t incidents_open = 0;
  uint64_t ranks_refused = 0;   // messages of ranks for which there was no room (memberships_max)
  uint64_t names_refused = 0;   // messages of ranks that gave more names than a rank may (rank_parts.h)
  LetGo let_go;
  uint64_t contradictions = 0;  // communicators begun anew, for their ranks disagreed about how many there are
};

}  // namespace ccld::decision
