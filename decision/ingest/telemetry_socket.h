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

  // What a probe sent, and how it came.
  struct Message {
    zmq::message_t body;
    std::string connection;
    std::optional<Speaker> speaker;  // nothing: keys are not used
    absl::Span<const uint8_t> bytes() const { return {body.data<uint8_t>(), body.size()}; }
    // Of the connection; -1: libzmq does not tell. Another connection may have the number by now.
    int descriptor() { return zmq_msg_get(body.handle(), ZMQ_SRCFD); }
    // Closes the connection: libzmq asks for keys once, when it begins. Who comes back is asked again.
    void cut_connection();
  };
  enum class Received { nothing, message, multipart };
  // Does not wait.
  Received receive(Message&);
  const Door* door() const { return door_.get(); }
  // To be called several times a second. If our key has changed, all connections are closed and the endpoint is bound
  // again with the new key; if that fails, the next call tries again, and the log says so once.
  void renew_key();
  // Does not wait. False: the connection is gone, or takes nothing any more.
  bool send(const std::string& connection, absl::Span<const uint8_t> message);

 private:
  TelemetrySocket() : socket_(context_, zmq::socket_type::router) {}

  zmq::context_t context_{1};
  zmq::socket_t socket_;
  std::string endpoint_;
  std::shared_ptr<const admission::SecretBook> secret_;  // nullptr: keys are not used
  std::shared_ptr<const std::string> secret_in_force_;
  bool listens_ = true;
  int failed_binds_ = 0;  // since our key changed
  std::unique_ptr<Door> door_;  // the last: it goes before what it watches
};

}  // namespace ccld::decision::ingest
