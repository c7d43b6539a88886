// The ROUTER socket that probes connect to (DEALER): batches come in, requests go out to single probes on the connection
// that their batches came on. A probe's message has one part, in front of which ZeroMQ puts the connection. Messages
// beyond message_bytes_max are refused by ZeroMQ before they are in memory. With keys only clients that the door (door.h)
// lets in get as far as that.
// Errors: open() names the endpoint. Threads: one; the socket belongs to the thread that opened it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "decision/ingest/door.h"
#include "decision/ingest/speaker.h"
#include "zmq.hpp"

namespace ccld::decision::ingest {

class TelemetrySocket {
 public:
  // `endpoint`: tcp://host:port (port 0 or *: any free one) or ipc://path.
  // `door`: nothing: whoever reaches the endpoint may send.
  static absl::StatusOr<TelemetrySocket> open(const std::string& endpoint, const std::optional<DoorOptions>& door = std::nullopt);

  const std::string& endpoint() const { return endpoint_; }  // with the port that was picked
  zmq::pollitem_t poll_item() { return {socket_.handle(), 0, ZMQ_POLLIN, 0}; }

  enum class Received { nothing, message, multipart };
  // Does not wait. The bytes are valid until the next call.
  Received receive(absl::Span<const uint8_t>& bytes);
  // Of the newest message.
  const std::string& connection() const { return connection_; }
  // Likewise, its descriptor; -1: libzmq does not tell. Another connection may have the number by now.
  int descriptor() { return zmq_msg_get(message_.handle(), ZMQ_SRCFD); }
  // Likewise; nullptr: keys are not used.
  const Speaker* speaker() const { return door_ != nullptr ? &speaker_ : nullptr; }
  const Door* door() const { return door_.get(); }
  // Does not wait. False: the connection is gone, or takes nothing any more.
  bool send(const std::string& connection, absl::Span<const uint8_t> message);

 private:
  TelemetrySocket() : socket_(context_, zmq::socket_type::router) {}

  zmq::context_t context_{1};
  zmq::socket_t socket_;
  zmq::message_t message_;
  std::string endpoint_, connection_;
  Speaker speaker_;
  std::unique_ptr<Door> door_;  // the last: it goes before what it watches
};

}  // namespace ccld::decision::ingest
