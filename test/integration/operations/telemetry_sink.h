// What a job says to the decision service, kept as it arrived: the service's end of the telemetry socket for tests.
//
// Units and meanings: schemas/wire/telemetry.fbs. Errors: a message that is no valid Batch is counted as `malformed`.
// Threads: a thread of its own collects from construction to stop(); the rest after stop().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "schemas/wire/telemetry_generated.h"

namespace ccld::operations_test {

struct SeenRound {
  uint64_t op_seq = 0;
  uint32_t replay = 0;
  wire::OpSignature signature;
  uint64_t begin_device_ns = 0, end_device_ns = 0;
  uint32_t send_steps = 0, recv_steps = 0;
  uint8_t flags = 0;
  uint8_t signals = 0;
  bool has(wire::RoundFlags flag) const { return (flags & static_cast<uint8_t>(flag)) != 0; }
};

struct SeenP2p {
  int peer = 0;
  bool is_send = false;
  uint64_t pair_seq = 0;
  uint64_t bytes = 0;
  uint64_t begin_device_ns = 0, end_device_ns = 0;
  uint32_t replay = 0;
  uint32_t plan = 0;
  uint32_t send_steps = 0, recv_steps = 0;  // of the kernel
  uint8_t flags = 0;
};

// One communicator on one rank.
struct SeenComm {
  bool up = false;
  bool down = false;
  uint32_t end_state = 0;
  uint64_t comm_hash = 0, parent_uid = 0;
  uint32_t number = 0;
  int rank_count = 0;
  uint32_t hidden = 0;  // abi::Hidden
  size_t net_connections = 0;  // whose network device is known
  std::vector<SeenRound> rounds;
  std::vector<SeenP2p> p2ps;
  uint64_t completed_op_seq = 0;
};

struct SeenInit {
  uint8_t stage = 0;
  int rank_count = 0;
  int result = 0;
};

class TelemetrySink {
 public:
  using CommKey = std::tuple<uint64_t, int>;  // comm_uid, rank
  using InitKey = std::tuple<uint64_t, int>;  // comm_hash, rank

  TelemetrySink();
  ~TelemetrySink();
  TelemetrySink(const TelemetrySink&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Takes in what is under way and ends the thread.
  void stop();

  std::map<CommKey, SeenComm> comms;
  std::map<InitKey, SeenInit> inits;
  std::map<std::tuple<uint32_t, uint64_t>, uint64_t> batches_lost;  // by process: numbers missing in the sequence
  uint64_t lapped_rounds = 0, dropped_batches = 0;
  uint64_t malformed = 0;
  uint64_t net_queues = 0;  // reports of them

 private:
  void collect();
  void take(const void* data, size_t bytes);
  void take(const wire::RoundGroups&);
  void take(const wire::P2pGroups&);

  void* context_ = nullptr;
  void* socket_ = nullptr;
  std::string endpoint_;
  std::atomic<bool> stopping_{false};
  std::map<std::tuple<uint32_t, uint64_t>, uint64_t> last_batch_;
  std::map<std::tuple<uint32_t, uint64_t>, std::tuple<uint64_t, uint64_t>> health_;
  std::thread thread_;
};

}  // namespace ccld::operations_test
