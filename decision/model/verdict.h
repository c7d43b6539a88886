// What the service says: one incident per cause, updated from suspected to confirmed to resolved, never an alert storm.
// (Paper, section 2.2: the classes; section 4.2.2: the decision tree.)
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decision/model/events.h"

namespace ccld::decision {

enum class FaultClass { h1_not_entered, h2_inconsistent, h3_hardware, s1_computation_slow, s2_communication_slow, s3_mixed_slow };
enum class VerdictState { suspected, confirmed, resolved };
enum class Component { unknown, process, host, gpu, proxy, nic, link, application };
enum class RuleSet { measured, paper };
// What a communicator is for in the training job.
enum class CommRole { unknown, tensor, pipeline, data, expert, world };
// Part of the training iteration.
enum class IterationPhase { unknown, forward, backward, gradient_reduction, pipeline_transfer, evaluation_checkpoint };
// Whether lost time makes the iteration longer, or a bubble absorbs it.
enum class StageEffect { unknown, critical, absorbed };
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

struct Culprit {
  Rank rank;
  std::string host;
  uint32_t pid = 0;
  int cuda_device = -1;
  std::string gpu_bus_id;
  Component component = Component::unknown;
  int channel = -1;              // -1: all, or not known
  std::optional<Rank> peer;      // of a link: the other end
  std::string net_name;          // of a NIC or link, when known
  double lost_time_share = 0;    // slow classes: its share of the lost time, 0..1
  double queued_part = 0;        // slow classes, of a rank that comes late: for how much of it its kernels lay launched
  Basis basis = Basis::unknown;  // slow classes: what told it
  int cause = 0;                 // slow classes: culprits of one cause have equal numbers
  std::string reason;            // short, e.g. "did not call operation 17", "count differs: 1024 against 2048"
};

// A number that decided, for `ccld explain` and the JSON line: rank (or -1), what, value, unit, comparison.
struct Evidence {
  int32_t rank = -1;
  std::string what;              // e.g. "channel 0 recv lane of group 1 wants step 133 from rank 4, which posted"
  double value = 0;
  std::string unit;              // "steps", "ms", "elements", ...
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

struct Incident {
  uint64_t id = 0;
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
  std::vector<CycleStep> cycle;  // not empty: who waits for whom, in a circle
  double confidence = 0;         // 0..1
  std::vector<Evidence> evidence;
  std::string next_step;         // what to look at next
  Gain gain;                     // slow classes
  TrainingStage stage;
  // Instants of the injected clock; 0: not yet.
  Nanoseconds onset_ns = 0;      // last evidence that all was well
  Nanoseconds suspected_ns = 0, confirmed_ns = 0, located_ns = 0, resolved_ns = 0;
};

}  // namespace ccld::decision
