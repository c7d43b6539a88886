// Telemetry as the decision service sees it: decoded, verified, free of FlatBuffers. One struct per payload of
// schemas/wire/telemetry.fbs; field meanings are those of the schema. `received_ns` is the service's injected clock.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "decision/model/types.h"
#include "schemas/abi/frame.h"
#include "schemas/abi/process.h"

namespace ccld::decision {

struct ProcessId {
  std::string host;     // machine or fake node name
  std::string boot_id;  // of the machine
  uint32_t pid = 0;
  uint32_t pid_namespace = 0;  // processes with equal boot_id and namespace share pids; 0: not known
  uint64_t pid_start_ticks = 0;
  friend auto operator<=>(const ProcessId&, const ProcessId&) = default;
};

struct Signature {
  uint64_t count = 0;
  int32_t root = -1;
  abi::Function function = abi::Function::unknown;
  abi::Datatype datatype = abi::Datatype::unknown;
  abi::Reduction reduction = abi::Reduction::none;
  abi::Algorithm algorithm = abi::Algorithm::unknown;
  abi::Protocol protocol = abi::Protocol::unknown;
  uint8_t flags = 0;
  uint16_t channels = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};

struct ChannelTopology {
  int channel = 0;
  int ring_prev = -1, ring_next = -1;
  int tree_up = -1;
  std::vector<int> tree_down;
  int tree_depth = -1;
};

struct NetConnection {
  int channel = 0;
  abi::Direction direction = abi::Direction::recv;
  int peer = -1;
  int net_device = -1;
  std::string net_name;
};

struct CommUp {
  CommUid comm;
  uint64_t comm_hash = 0;
  uint32_t comm_number = 0;
  std::string name;
  Rank rank;
  int rank_count = 0;
  int node = 0, node_count = 0, local_rank = 0, cuda_device = 0;
  std::string gpu_bus_id;
  std::string host;
  std::vector<ChannelTopology> channels;
  std::vector<NetConnection> connections;
  uint32_t mode = 0;
  CommUid parent;  // split, shrunk or grown from; 0: none
  uint32_t hidden = 0;  // abi::Hidden
};

struct CommDown {
  CommUid comm;
  Rank rank;
  abi::CommState state = abi::CommState::none;
  OpSeq last_entered;
};

// A communicator being initialized, or whose initialization failed, as one rank sees it.
struct CommInit {
  uint64_t comm_hash = 0;
  Rank rank;
  int rank_count = 0;
  abi::InitStage stage = abi::InitStage::none;
  uint32_t stage_age_ms = 0, enter_age_ms = 0;
  int32_t result = 0;  // ncclResult_t of a failure
  int cuda_device = -1;
  uint64_t number = 0;  // of the initialization, within the process
};

enum RoundFlag : uint8_t {
  round_counts_valid = 1,
  round_aborted = 2,
  round_no_kernel = 4,
  round_lapped = 8,
  round_shared_kernel = 16,  // times and counts are those of a kernel that carried other operations too
  round_not_measured = 32,
};

constexpr uint8_t signals_default = abi::signal_times | abi::signal_steps | abi::signal_waits;

// Which execution of an operation: replay 0 is the call itself, from 1 on the replays of the graph it was recorded
// into.
struct RoundKey {
  OpSeq op;
  uint32_t replay = 0;
  friend constexpr auto operator<=>(const RoundKey&, const RoundKey&) = default;
  template <class H>
  friend H AbslHashValue(H h, const RoundKey& k) {
    return H::combine(std::move(h), k.op, k.replay);
  }
};

struct Round {
  OpSeq op;
  Signature signature;
  uint64_t enter_monotonic_ns = 0, launch_monotonic_ns = 0;  // of the sender's machine
  uint64_t begin_device_ns = 0, end_device_ns = 0;           // of that GPU only
  uint32_t send_steps = 0, recv_steps = 0;
  uint32_t send_changes = 0, recv_changes = 0;
  uint32_t samples = 0;
  uint8_t flags = 0;
  uint32_t replay = 0;
  uint8_t signals = signals_default;
  RoundKey key() const { return {op, replay}; }
  bool has_device_times() const {
    return (flags & (round_no_kernel | round_lapped | round_not_measured)) == 0 && (signals & abi::signal_times) != 0 &&
           end_device_ns >= begin_device_ns;
  }
  bool has_counts() const {
    return (flags & round_counts_valid) != 0 && (flags & round_not_measured) == 0 && (signals & abi::signal_steps) != 0;
  }
  Nanoseconds duration_ns() const { return static_cast<Nanoseconds>(end_device_ns - begin_device_ns); }
};

struct LinkStages {
  OpSeq op;  // of Send and Recv: the pair_seq of the kernel's first call with that peer in that direction
  int64_t gpu_mean_realtime_ns = 0, ready_mean_realtime_ns = 0, wire_mean_realtime_ns = 0, done_mean_realtime_ns = 0;
  int32_t peer = -1, net_device = -1;
  uint32_t steps = 0;
  uint32_t proxy_away_us = 0;  // of the round: it had work, and did not poll
  uint16_t channel = 0;
  abi::Direction direction = abi::Direction::recv;
  uint8_t group = 0;
  uint32_t first_step = 0;  // the means leave out the steps before
};

struct Rounds {
  CommUid comm;
  Rank rank;
  std::vector<Round> rounds;
  std::vector<LinkStages> links;
};

// A finished Send or Recv call. Times are those of the kernel that carried it.
struct P2pRound {
  Rank peer;
  abi::Direction direction = abi::Direction::recv;
  uint64_t pair_seq = 0, bytes = 0;
  uint64_t enter_monotonic_ns = 0, launch_monotonic_ns = 0;
  uint64_t begin_device_ns = 0, end_device_ns = 0;
  uint8_t flags = 0;
  uint32_t replay = 0, plan = 0;
  uint32_t send_steps = 0, recv_steps = 0;  // of the kernel that carried it
};

struct P2pRounds {
  CommUid comm;
  Rank rank;
  std::vector<P2pRound> rounds;
  std::vector<LinkStages> links;
};

constexpr uint32_t age_never = 0xffffffffu;

struct LaneState {
  uint32_t token = 0, current_step = 0, base_step = 0, want_step = 0, seen_step = 0;
  int32_t peer = -1;
  uint32_t wait_age_ms = 0, poll_age_ms = 0, moved_age_ms = 0;
  uint16_t channel = 0;
  abi::Direction direction = abi::Direction::recv;
  uint8_t group = 0, peer_index = 0;
  abi::WaitKind wait = abi::WaitKind::none;
  bool wait_certain = false;
};

struct ProxyState {
  uint64_t base = 0, posted = 0, received = 0, transmitted = 0, done = 0, step_count = 0, operation = 0;
  int32_t peer = -1, net_device = -1;
  uint32_t tick_age_ms = 0, moved_age_ms = 0;
  uint16_t channel = 0;
  abi::Direction direction = abi::Direction::recv;
};

struct ChannelState {
  uint32_t token = 0;
  uint16_t channel = 0;
  bool begun = false, ended = false;
  uint32_t running_age_ms = 0, polling_age_ms = age_never;
  uint32_t send_steps = 0, recv_steps = 0;
};

struct InFlightOp {
  OpSeq op;
  Signature signature;
  uint32_t plan = 0;
  uint32_t enter_age_ms = 0, launch_age_ms = 0;
  bool launched = false, begun = false;
  bool ended_since = false;  // it was reported as a round after the snapshot
  std::vector<ChannelState> channels;
  uint32_t replay = 0;
  uint8_t signals = 0;  // 0: not launched yet
  RoundKey key() const { return {op, replay}; }
  // Recorded into a graph and not a replay of it: nothing runs, however long ago it was called.
  bool only_captured() const { return replay == 0 && (signature.flags & abi::op_captured) != 0; }
  // After the launch, a signal that is missing was not measured.
  bool measures(uint8_t any_of) const { return (signals & any_of) != 0; }
};

// A Send or Recv call that has not ended.
struct P2pCall {
  uint64_t call = 0, pair_seq = 0, bytes = 0;
  Rank peer;
  uint32_t plan = 0, enter_age_ms = 0, launch_age_ms = 0, replay = 0;
  abi::Direction direction = abi::Direction::recv;
  bool launched = false, begun = false;
  uint8_t flags = 0;
  uint8_t signals = 0;  // abi::Signal; 0: not launched yet
  bool only_captured() const { return replay == 0 && (flags & abi::op_captured) != 0; }
};

struct InFlight {
  CommUid comm;
  Rank rank;
  uint64_t sample_monotonic_ns = 0;
  OpSeq entered, launched, completed;
  uint32_t moved_age_ms = 0;
  uint64_t movement = 0;
  std::vector<InFlightOp> operations;
  uint32_t operations_total = 0;
  std::vector<LaneState> lanes;
  std::vector<ProxyState> proxies;
  uint32_t proxy_tick_age_ms = age_never;
  bool late = false;
  abi::CommState state = abi::CommState::none;
  std::vector<P2pCall> p2p;
  uint32_t p2p_total = 0;
  uint64_t entered_p2p = 0, launched_p2p = 0;
  uint32_t kernel_plan = 0, kernel_replay = 0;  // of lanes and channels; 0: none
  bool stopped = false;                         // the probe was stopped by an operator
  bool held = false;                            // the process holds while its hardware is tested
};

// What the frame of a process that cannot speak says of one communicator.
struct LastOperations {
  CommUid comm;
  Rank rank;
  OpSeq entered, launched;
  OpSeq begun;  // 0: not known
};

struct Sibling {
  uint32_t pid = 0;
  uint64_t pid_start_ticks = 0;
  char state = '?';  // letter of /proc/<pid>/stat, 'X': gone
  uint32_t state_age_ms = 0;
  std::vector<LastOperations> last_operations;  // if it is stopped or gone
};

struct AgentHealth {
  uint64_t samples = 0, late_samples = 0, lapped_rounds = 0, dropped_batches = 0, dropped_rounds = 0, send_errors = 0,
           sent_batches = 0, sent_bytes = 0, cpu_ns = 0;
  std::vector<Sibling> siblings;
};

// (id, instance, value) of schemas/abi/metrics.h; ids of newer probes keep their numbers.
struct Metric {
  abi::MetricId id = abi::MetricId::none;
  std::string instance;
  int64_t value = 0;
};
struct Metrics {
  std::vector<Metric> metrics;
};

// One queue of a network device as the posting process sees it.
struct NetQueue {
  uint64_t queue = 0, in_flight = 0, send_posted = 0, send_completed = 0, window_bytes = 0, recv_in_flight = 0,
           errors = 0;
  int device = -1;
  uint32_t number = 0;  // queue pair; 0 for sockets
  uint32_t window_ms = 0, post_age_ms = age_never, complete_age_ms = age_never;
  abi::NetKind kind = abi::NetKind::socket;
  std::string device_name;  // empty: not known
};
struct NetQueues {
  std::vector<NetQueue> queues;
};

// What became of a request to change how the probe runs, and the values in force.
struct ControlState {
  uint64_t sequence = 0;
  uint32_t refused_fields = 0;  // abi::ControlField
  bool running = true;
  uint32_t sample_us = 0, log = 0, budget_ppm = 0, period_us = 0;
  std::string endpoint;
};

using Payload = std::variant<CommUp, CommDown, Rounds, InFlight, AgentHealth, CommInit, P2pRounds, Metrics, NetQueues,
                             ControlState>;

struct Batch {
  ProcessId process;
  std::string job;
  uint64_t batch_seq = 0;
  int64_t sent_realtime_ns = 0;
  uint64_t sent_monotonic_ns = 0;
  uint32_t nccl_version = 0;
  bool acknowledge = false;  // the sender wants to know what has come
  std::vector<Payload> payloads;
};

}  // namespace ccld::decision
