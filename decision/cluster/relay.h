// Telemetry between nodes: each node has what all probes say, whichever node they are connected to. Whoever wants to
// say something to a probe of another node sends it by way of that node.
//
// Contract
//   A message of a probe is sent on once its node has found that its sender may send it. Nobody waits: what the bus
//   does not take is counted and lost, as on any other way here; the analysis sees the gap. Both
//   queues, of messages to send and of messages that the analysis has not taken yet, are bounded; what does not fit is
//   dropped and counted, by priority (priority.h).
// Threads: send(), answer(), take_all() the analysis thread; the bus fills the room from its own.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "decision/cluster/bus.h"
#include "decision/cluster/outbox.h"
#include "decision/cluster/priority.h"

namespace ccld::decision::cluster {

struct Relayed {
  std::string connection;  // of another node's probe: "<node>/<its connection>"
  std::vector<uint8_t> bytes;
};

class Relay {
 public:
  static constexpr size_t waiting_bytes_max = size_t{256} << 20;

  Relay(Bus& bus, std::string node) : bus_(bus), node_(std::move(node)), outbox_(bus) {}
  ~Relay();
  Relay(const Relay&) = delete;

  // Errors: as Bus::listen; Unavailable: no event descriptor.
  absl::Status start();

  void send(const std::string& connection, absl::Span<const uint8_t> message, Priority);
  // For a probe of another node. False: there is no connection or no room.
  bool answer(const std::string& connection, absl::Span<const uint8_t> message);
  static bool is_relayed(const std::string& connection) { return !connection.empty() && connection.front() == mark; }

  // Until all of that has been sent or refused. False: that took longer.
  bool flush(absl::Duration timeout) { return outbox_.flush(timeout); }

  // Telemetry of others' probes, and what others say to probes of this node.
  struct Waiting {
    std::vector<Relayed> telemetry, answers;
  };
  Waiting take_all();
  int descriptor() const { return event_; }  // readable while something waits

  uint64_t sent() const { return outbox_.sent(); }
  uint64_t not_sent() const { return outbox_.not_sent() + too_long_; }
  uint64_t received() const { return received_; }
  uint64_t dropped() const { return dropped_; }

 private:
  // No connection of libzmq's begins with it: those that it names itself begin with a zero byte.
  static constexpr char mark = '@';
  void put(std::vector<Relayed> Waiting::*where, Relayed, Priority);

  Bus& bus_;
  const std::string node_;
  int event_ = -1;
  Outbox outbox_;
  std::atomic<uint64_t> too_long_ = 0, received_ = 0, dropped_ = 0;
  std::mutex mutex_;
  Waiting waiting_;
  size_t waiting_bytes_ = 0;
};

}  // namespace ccld::decision::cluster
