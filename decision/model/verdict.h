// What the service says: one incident per cause, updated from suspected to confirmed to resolved, never an alert storm.
// (Paper, section 2.2: the classes; section 4.2.2: the decision tree.)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decision/model/events.h"
#include "decision/model/evidence.h"

namespace ccld::decision {

enum class FaultClass { h1_not_entered, h2_inconsistent, h3_hardware, s1_computation_slow, s2_communication_slow, s3_mixed_slow };
// Resolved: it went away while the job ran on. Ended: the job, the communicator or the service ended before it did.
enum class VerdictState { suspected, confirmed, resolved, ended };
constexpr bool is_open(VerdictState s) { return s == VerdictState::suspected || s == VerdictState::confirmed; }
enum class Component { unknown, process, host, gpu, proxy, nic, link, application };
enum class RuleSet { measured, paper };
// What a communicator is for in the training job.
enum class CommRole { unknown, tensor, pipeline, data, expert, world };
// Part of the training iteration.
enum class IterationPhase { unknown, forward, backward, gradient_reduction, pipeline_transfer, evaluation_checkpoint };
// Whether lost time makes the iteration longer, or a bubble absorbs it.
enum class StageEffect { unknown, critical, absorbed };
// What is wrong with a culprit. Words for it: report/headline.h.
enum class Condition {
  unknown,
  // It is not in the operation that others wait in.
  not_called, not_launched, kernel_not_started, left, replay_not_begun, never_heard, initialization_behind,
  initialization_failed,
  // Its process or host.
  stopped, gone, silent, host_silent, aborted,
  // It is in the operation, and something of it stands.
  kernel_stuck, kernel_not_begun, data_not_seen, proxy_stuck, proxy_not_begun, nic_stuck, nothing_arrives,
  // Its call is not that of the others.
  call_differs, call_skipped, call_added, bytes_differ, ended_early, ended_late,
  // Slow.
  gpu_late, host_late, link_slow, nic_slow, proxy_slow, proxy_polls_seldom, gpu_takes_slowly, processors_short, gaps_longer,
  // Slow by a check of its own, outside the job (decision/validate).
  gpu_slow
};
// What told a cause of slowness: what was compared with what.
enum class Basis {
  unknown,
  peers,             // a rank with ranks that do the same
  past,              // a rank with what it needed before
  connections,       // connections of collectives with each other
  past_connections,  // with before
  transfers,         // transfers of Send and Recv with those of other connections
  past_transfers,    // with before
  expectation,       // with what the settings expect of a network
  processors,        // waits for a processor with those of other hosts
  gaps               // gaps between operations with before, in an iteration that got longer
};

const char* name(FaultClass);     // "H1" .. "S3"
const char* title(FaultClass);    // "Not-Entered-Hang" ..
const char* name(VerdictState);
const char* name(Component);
const char* name(RuleSet);
const char* name(CommRole);        // "tensor" ..
const char* name(IterationPhase);  // "gradient reduction" ..
const char* name(StageEffect);
const char* name(Basis);
const char* name(Condition);       // "kernel_stuck" ..

struct Culprit {
  Rank rank;                     // of the incident's communicator
  std::optional<Rank> job_rank;  // of the communicator that has all GPUs of the job, if there is one
  std::string host;
  uint32_t pid = 0;
  int cuda_device = -1;
  std::string gpu_bus_id;
  Component component = Component::unknown;
  Condition condition = Condition::unknown;
  int channel = -1;              // -1: all, or not known
  std::optional<Rank> peer;      // of a link: the other end
  std::string peer_host;
  std::string net_name;          // of a NIC or link, when known
  double lost_time_share = 0;    // slow classes: its share of the lost time, 0..1
  double queued_part = 0;        // slow classes, of a rank that comes late: for how much of it its kernels lay launched
  Basis basis = Basis::unknown;  // slow classes: what told it
  int cause = 0;                 // slow classes: culprits of one cause have equal numbers
  std::string reason;            // short, e.g. "did not call operation 17", "count differs: 1024 against 2048"
};

// A communicator that stands still because of a cause that lies elsewhere.
constexpr size_t victim_comms_max = 64;
struct VictimComm {
  CommUid comm;
  std::string name;
  int rank_count = 0;
  OpSeq op;                      // in which its ranks wait; 0: Send or Recv
};

// One wait of a circle: a process waits in a call on a communicator for the process of the next row.
struct CycleStep {
  CommUid comm;
  std::string comm_name;
  OpSeq op;                      // 0: Send or Recv
  Rank rank, waits_for;          // of that communicator
  std::string host;
  uint32_t pid = 0;
  int cuda_device = -1;
  friend bool operator==(const CycleStep&, const CycleStep&) = default;
};

// An edge of the chain of waits: `rank` waits for `waits_for`.
enum class WaitFor { entry, step, slot, call, all_of_node, all_nodes };
constexpr size_t waits_max = 64;
struct Wait {
  CommUid comm;                    // empty: that of the incident
  Rank rank, waits_for;            // of that communicator
  WaitFor what = WaitFor::entry;   // its entry into the operation, a step, a free slot, a Send or Recv, a switch or network
  int channel = -1;                // -1: none
  std::optional<uint32_t> wanted;  // the step, and what the other side has posted; of a slot: has taken
  std::optional<uint32_t> posted;
  Nanoseconds age_ns = 0;          // how long it has waited
};
const char* name(WaitFor);

// What a job would gain without the cause of a slow incident.
struct Gain {
  Nanoseconds now_ns = 0, without_ns = 0;  // 0: not known
  bool of_iteration = false;               // of one iteration; else of the operations that were compared
  bool known() const { return now_ns > 0; }
  // By how much the time would be less, 0..1.
  double share() const {
    return known() ? 1 - static_cast<double>(without_ns) / static_cast<double>(now_ns) : 0;
  }
};

// Where in the training iteration the incident lies. Confidences 0..1.
struct TrainingStage {
  CommRole role = CommRole::unknown;
  double role_confidence = 0;
  IterationPhase phase = IterationPhase::unknown;
  double phase_confidence = 0;
  StageEffect effect = StageEffect::unknown;       // slow classes
  Nanoseconds iteration_usual_ns = 0, iteration_now_ns = 0;  // 0: not known
};

// From where the incidents of one run of the service are numbered.
struct Numbering {
  std::string run;       // of the service; empty: a replay or a test
  uint64_t last_id = 0;  // the highest that an earlier run gave
};

struct Incident {
  uint64_t handle = 0;           // by which the analysis knows it; stays when another node's number becomes its own
  uint64_t id = 0;               // its number
  std::string run;               // of the service that gave the id
  uint32_t revision = 0;         // one more each time that it is handed out, from 1
  FaultClass fault = FaultClass::h1_not_entered;
  VerdictState state = VerdictState::suspected;
  RuleSet rules = RuleSet::measured;
  std::string job;
  CommUid comm;
  std::string comm_name;
  int rank_count = 0;
  OpSeq op;                      // first operation affected
  uint32_t replay = 0;           // of it, if it was recorded into a graph
  std::string title;             // empty: that of the class
  Signature signature;           // of the majority
  std::vector<Culprit> culprits; // empty: not singled out; then `candidates` and `next_step` say what is left
  std::vector<Rank> candidates;
  uint32_t victim_count = 0;
  std::vector<Rank> victim_sample;
  std::vector<VictimComm> victim_comms;  // further communicators that wait for the same cause; at most victim_comms_max
  uint32_t victim_comm_count = 0;
  OpSeq hangs_since;             // H2: the operation in which the communicator hangs because of it; 0: it goes on
  std::vector<Wait> waits;       // that lead to the culprits, the nearest to them first; at most waits_max
  std::vector<CycleStep> cycle;  // not empty: who waits for whom, in a circle
  double confidence = 0;         // 0..1
  std::vector<Evidence> evidence;
  std::string next_step;         // what to look at next
  Gain gain;                     // slow classes
  TrainingStage stage;
  // Instants of the injected clock; 0: not yet.
  Nanoseconds onset_ns = 0;      // last evidence that all was well
  Nanoseconds suspected_ns = 0, confirmed_ns = 0, located_ns = 0, resolved_ns = 0;  // resolved or ended
};

}  // namespace ccld::decision
