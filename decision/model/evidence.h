// The numbers that decided a verdict: what was counted or measured, of whom. Typed, so that every surface can draw
// them; the words for people are made in one place (words()). Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "decision/model/types.h"

namespace ccld::decision {

enum class EvidenceKind : uint8_t {
  unknown,
  // How far ranks came.
  calls_made,     // operations
  kernels_begun,  // operations, by the frame of a process that does not speak any more
  telemetry_age,  // ms since its process was heard
  operation_age,  // ms in `op`
  ranks_waiting,  // ranks inside `op`
  ranks_absent_elsewhere,
  call_age,              // ms in `subject` (a Send or Recv) with `peer`
  still_for,             // ms since anything moved on the communicator
  last_moved_elsewhere,  // ms since it moved on communicator `subject`, operation `op`
  // Where waits lead.
  waiters,            // connection endpoints that wait for it
  not_moved,          // ms without a step
  waits_followed,     // connection endpoints
  waits_without_end,  // connection endpoints
  processor_missing,  // ms for which threads that move steps were ready and hardly ran
  circle,             // `subject` waits for rank `value`
  // The stages of a connection.
  steps_posted,      // by its GPU for `peer`
  steps_to_network,  // by its proxy for `peer`
  steps_sent,        // by the network to `peer`
  steps_received,    // by its proxy from `peer`
  steps_to_gpu,      // by its proxy from `peer`
  proxy_poll_age,    // ms since its proxy polled the connection
  // Calls that differ.
  ranks_calling,  // ranks that made the call `subject` as operation `op`
  elements,
  bytes_sent,      // by the call `subject` to `peer`
  bytes_received,  // by the call `subject` from `peer`
  pairs_differing,
  hangs_since,  // the operation in which the communicator hangs because of the mismatch
  // Communicator initialization, and who else waits.
  ranks_in_stage,  // ranks that are `subject`
  ranks_never_heard,
  initialization_age,     // ms
  initialization_result,  // ncclResult_t of a failure
  ranks_of_comm_wait,     // ranks of communicator `subject`
  ranks_of_comm_may_wait,
  // Slowness.
  steps_more_than_before,  // waiting steps, `subject` says where, to `peer`
  steps_more_than_others,
  transfer,              // ms of one operation
  transfer_reference,    // ms, if all connections were like the others
  since_start,           // s
  rise_in_operations,    // % of the rise, on communicator `subject`
  rise_between,          // % of the rise
  rise_in_gaps_of_rank,  // % of the rise
  main_thread_waited,    // % of the time, `subject` says whose
  proxy_threads_waited,  // %
  host_pressure,         // %
  // A check outside the job.
  check_time,       // ms of a repetition of `subject`, to `peer` if it is a link
  check_reference,  // ms that its peers, or its own past, need
  // Beside it.
  also_seen,     // did not decide: `subject`, in its own unit
  not_measured,  // ranks, `subject` says what
  paper,         // a value of the paper's rules: `subject`
};

const char* name(EvidenceKind);  // "calls_made"

struct Evidence {
  EvidenceKind kind = EvidenceKind::unknown;
  int32_t rank = -1;    // of the communicator; -1: all
  int32_t peer = -1;    // the rank at the other end; -1: none
  int channel = -1;     // -1: all, or none
  OpSeq op;             // 0: none
  std::string subject;  // what the kind says
  double value = 0;
  std::string unit;       // empty: that of the kind
  Nanoseconds at_ns = 0;  // when it happened, on the service's clock; 0: not known, or all the time
};

// "steps", "ms", ...
std::string unit_of(const Evidence&);
// What the value is, without rank, value and unit: "steps that its GPU posted for rank 4 on channel 1".
std::string words(const Evidence&);

}  // namespace ccld::decision
