// What the diagnostic thread says to the decision service, before it is encoded: one struct per payload of
// schemas/wire/telemetry.fbs, with that schema's meanings and units. Fixed-size rows are the schema's own structs.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "probe/counters/health.h"
#include "probe/frames/comm.h"
#include "probe/probe.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::probe {

struct CommUpMessage {
  CommIdentity identity;
  uint32_t comm_number = 0;
  int rank = 0;
  int rank_count = 0;
  int cuda_device = 0;
  uint32_t mode = 0;
  std::vector<NetConnection> connections;
};

struct CommDownMessage {
  uint64_t comm_uid = 0;
  int rank = 0;
  uint32_t state = 0;
  uint64_t last_entered_op_seq = 0;
};

struct FinishedRound {
  uint64_t op_seq = 0;
  wire::OpSignature signature;
  uint64_t enter_monotonic_ns = 0;
  uint64_t launch_monotonic_ns = 0;
  uint64_t begin_device_ns = 0;
  uint64_t end_device_ns = 0;
  uint32_t send_steps = 0;
  uint32_t recv_steps = 0;
  uint32_t send_changes = 0;
  uint32_t recv_changes = 0;
  uint32_t samples = 0;
  uint8_t flags = 0;  // wire::RoundFlags
};

struct RoundsMessage {
  uint64_t comm_uid = 0;
  int rank = 0;
  std::vector<FinishedRound> rounds;
  std::vector<wire::LinkStages> links;
};

struct OperationInFlight {
  uint64_t op_seq = 0;
  wire::OpSignature signature;
  uint32_t plan = 0;
  uint32_t enter_age_ms = 0;
  uint32_t launch_age_ms = 0;
  bool launched = false;
  bool begun = false;
  std::vector<wire::ChannelState> channels;
};

struct InFlightMessage {
  uint64_t comm_uid = 0;
  int rank = 0;
  uint64_t sample_monotonic_ns = 0;
  uint64_t entered_op_seq = 0;
  uint64_t launched_op_seq = 0;
  uint64_t completed_op_seq = 0;
  uint32_t moved_age_ms = 0;
  uint64_t movement = 0;
  std::vector<OperationInFlight> operations;
  uint32_t operations_total = 0;
  std::vector<wire::LaneState> lanes;
  std::vector<wire::ProxyState> proxies;
  uint32_t proxy_tick_age_ms = 0;
  bool late = false;
  uint32_t state = 0;
};

struct SiblingState {
  uint32_t pid = 0;
  uint64_t pid_start_ticks = 0;
  char state = '?';
  uint32_t state_age_ms = 0;
};

struct HealthMessage {
  Health health;
  std::vector<SiblingState> siblings;
};

using Message = std::variant<CommUpMessage, CommDownMessage, RoundsMessage, InFlightMessage, HealthMessage>;

// The sender of a batch.
struct Sender {
  std::string job;
  std::string host;
  std::string boot_id;
  uint32_t pid = 0;
  uint64_t pid_start_ticks = 0;
  uint32_t nccl_version = 0;
};

}  // namespace ccld::probe
