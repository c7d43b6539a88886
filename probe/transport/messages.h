// What the diagnostic thread says to the decision service, before it is encoded: one struct per payload of
// schemas/wire/telemetry.fbs, with that schema's meanings and units. Fixed-size rows are the schema's own structs.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "probe/control/control.h"
#include "probe/counters/health.h"
#include "probe/frames/comm.h"
#include "probe/probe.h"
#include "schemas/abi/metrics.h"
#include "schemas/abi/process.h"
#include "schemas/wire/telemetry_generated.h"

namespace ccld::probe {

struct CommUpMessage {
  CommIdentity identity;
  uint32_t comm_number = 0;
  int rank = 0;
  int rank_count = 0;
  int cuda_device = 0;
  uint32_t mode = 0;
  uint32_t hidden = 0;
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
  uint32_t replay = 0;  // from 1: of a graph; 0: none
  uint8_t flags = 0;    // wire::RoundFlags
  uint8_t signals = 0;  // abi::Signal
};

// Columns of equal length.
struct LinkColumns {
  std::vector<wire::LinkStages> links;
  std::vector<uint32_t> link_proxy_away_us;  // empty: all 0
  std::vector<uint32_t> link_first_step;     // empty: all 0
};

struct RoundsMessage : LinkColumns {
  uint64_t comm_uid = 0;
  int rank = 0;
  std::vector<FinishedRound> rounds;
};

// A Send or Recv call that has ended.
struct FinishedP2p {
  int32_t peer = -1;
  uint8_t direction = 0;
  uint8_t flags = 0;  // wire::RoundFlags
  uint32_t replay = 0;
  uint32_t plan = 0;
  uint64_t pair_seq = 0;
  uint64_t bytes = 0;
  uint64_t enter_monotonic_ns = 0;
  uint64_t launch_monotonic_ns = 0;
  uint64_t begin_device_ns = 0;
  uint64_t end_device_ns = 0;
  uint32_t send_steps = 0;  // of the kernel
  uint32_t recv_steps = 0;
};

struct P2pRoundsMessage : LinkColumns {
  uint64_t comm_uid = 0;
  int rank = 0;
  std::vector<FinishedP2p> rounds;
};

struct OperationInFlight {
  uint64_t op_seq = 0;
  wire::OpSignature signature;
  uint32_t plan = 0;
  uint32_t enter_age_ms = 0;
  uint32_t launch_age_ms = 0;
  bool launched = false;
  bool begun = false;
  uint32_t replay = 0;
  uint8_t signals = 0;
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
  std::vector<wire::P2pInFlight> p2p;
  uint32_t p2p_total = 0;
  uint64_t entered_p2p = 0;
  uint64_t launched_p2p = 0;
  uint32_t kernel_plan = 0;
  uint32_t kernel_replay = 0;
  bool stopped = false;
  bool held = false;
};

// Of a process that cannot speak any more: what its frame says of one communicator.
struct LastOperations {
  uint64_t comm_uid = 0;
  int rank = 0;
  uint64_t entered_op_seq = 0;
  uint64_t launched_op_seq = 0;
  uint64_t begun_op_seq = 0;  // whose kernel its GPU has begun; 0: not known
};

struct SiblingState {
  uint32_t pid = 0;
  uint64_t pid_start_ticks = 0;
  char state = '?';
  uint32_t state_age_ms = 0;
  std::vector<LastOperations> last_operations;  // only if it is stopped or gone
};

struct HealthMessage {
  Health health;
  std::vector<SiblingState> siblings;
};

// A communicator that is being made, or whose initialization failed.
struct CommInitMessage {
  uint64_t number = 0;  // of the initialization, within the process
  uint64_t comm_hash = 0;
  int rank = 0;
  int rank_count = 0;
  abi::InitStage stage = abi::InitStage::none;
  uint32_t stage_age_ms = 0;
  uint32_t enter_age_ms = 0;
  int result = 0;
  int cuda_device = 0;
};

struct MetricValue {
  abi::MetricId id = abi::MetricId::none;
  std::string instance;
  int64_t value = 0;
};

struct MetricsMessage {
  std::vector<MetricValue> metrics;
};

struct NetQueuesMessage {
  std::vector<wire::NetProgress> queues;
  std::vector<std::string> device_names;  // by `device`
};

struct ControlStateMessage {
  ControlInForce state;
};

using Message = std::variant<CommUpMessage, CommDownMessage, RoundsMessage, InFlightMessage, HealthMessage, CommInitMessage,
                             P2pRoundsMessage, MetricsMessage, NetQueuesMessage, ControlStateMessage>;

// The sender of a batch.
struct Sender {
  std::string job;
  std::string host;
  std::string boot_id;
  uint32_t pid = 0;
  uint32_t pid_namespace = 0;
  uint64_t pid_start_ticks = 0;
  uint32_t nccl_version = 0;
};

}  // namespace ccld::probe
