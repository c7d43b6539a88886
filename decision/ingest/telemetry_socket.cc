#include "decision/ingest/telemetry_socket.h"

#include <sys/socket.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::ingest {
namespace {

// Messages waiting per sender. When it is full the sender's own queue fills and the probe drops and counts: the service
// never holds more than this for a process, however slow it is.
constexpr int queued_messages_max = 1000;
// Connections that the kernel has made and we have not taken yet: all processes of a large job may come at once. The
// kernel's own limit (net.core.somaxconn) is 4096 mostly.
constexpr int backlog = 4096;
// Who connects and does not say what ZeroMQ says first goes after this.
constexpr int handshake_ms_max = 10'000;
// libzmq closes an endpoint in a thread of its own, within milliseconds: until then it cannot be bound again. After a
// second of calls something else has it.
constexpr int failed_binds_said = 10;

}  // namespace

absl::StatusOr<TelemetrySocket> TelemetrySocket::open(const std::string& endpoint,
                                                      const std::optional<DoorOptions>& door) {
  if (!absl::StartsWith(endpoint, "tcp://") && !absl::StartsWith(endpoint, "ipc://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", endpoint, "' is not an endpoint: tcp://address:port or ipc://path is expected"));
  }
  try {
    TelemetrySocket result;
    result.socket_.set(zmq::sockopt::rcvhwm, queued_messages_max);
    result.socket_.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(message_bytes_max));
    result.socket_.set(zmq::sockopt::linger, 0);
    result.socket_.set(zmq::sockopt::backlog, backlog);
    result.socket_.set(zmq::sockopt::handshake_ivl, handshake_ms_max);
    result.socket_.set(zmq::sockopt::router_mandatory, true);
    if (absl::StrContains(endpoint, "tcp://[")) result.socket_.set(zmq::sockopt::ipv6, 1);
    if (door.has_value()) {
      result.secret_ = door->secret;
      result.secret_in_force_ = door->secret->newest();
      result.door_ = std::make_unique<Door>(result.context_, result.socket_, *door);
    }
    result.socket_.bind(endpoint);
    result.endpoint_ = result.socket_.get(zmq::sockopt::last_endpoint);
    return result;
  } catch (const zmq::error_t& e) {
    return e.num() == EINVAL ? absl::InvalidArgumentError(absl::StrCat("'", endpoint, "' is not a valid endpoint"))
                             : absl::UnavailableError(absl::StrCat("cannot listen on '", endpoint, "': ", e.what()));
  }
}

void TelemetrySocket::Message::cut_connection() {
  // libzmq has no word for it: to its thread it looks as if the other side had closed.
  if (const int connected = descriptor(); connected >= 0) shutdown(connected, SHUT_RDWR);
}

TelemetrySocket::Received TelemetrySocket::receive(Message& m) {
  try {
    if (!socket_.recv(m.body, zmq::recv_flags::dontwait)) return Received::nothing;
    m.connection.assign(m.body.data<char>(), m.body.size());
    int parts = 0;
    while (m.body.more()) {  // ZeroMQ delivers the parts of a message together
      if (!socket_.recv(m.body, zmq::recv_flags::dontwait)) break;
      ++parts;
    }
    if (parts == 0) m.body.rebuild();  // ROUTER always puts the connection in front: then the batch is empty
    if (door_ != nullptr) {
      const char* const key = zmq_msg_gets(m.body.handle(), "User-Id");
      m.speaker = Speaker{key != nullptr ? key : "", door_->keys().newest()};
    }
    return parts > 1 ? Received::multipart : Received::message;
  } catch (const zmq::error_t&) {  // EINTR, or the context ends
    return Received::nothing;
  }
}

void TelemetrySocket::renew_key() {
  if (secret_ == nullptr) return;
  const auto newest = secret_->newest();
  try {
    if (newest != secret_in_force_) {
      // A bound endpoint keeps the key that was set when it was bound.
      socket_.set(zmq::sockopt::curve_secretkey, *newest);
      secret_in_force_ = newest;
      failed_binds_ = 0;
      if (listens_) socket_.unbind(endpoint_);
      listens_ = false;
    }
    if (listens_) return;
    socket_.bind(endpoint_);
    listens_ = true;
    if (failed_binds_ >= failed_binds_said) spdlog::warn("telemetry: listening on {} again", endpoint_);
  } catch (const zmq::error_t& e) {
    if (++failed_binds_ == failed_binds_said)
      spdlog::error("telemetry: cannot listen on {} with the new key: {}; trying again", endpoint_, e.what());
  }
}

bool TelemetrySocket::send(const std::string& connection, absl::Span<const uint8_t> message) {
  try {
    // Mandatory routing: an unknown connection and a full queue are errors at the first part.
    if (!socket_.send(zmq::buffer(connection), zmq::send_flags::sndmore | zmq::send_flags::dontwait)) return false;
    return socket_.send(zmq::buffer(message.data(), message.size()), zmq::send_flags::dontwait).has_value();
  } catch (const zmq::error_t&) {
    return false;
  }
}

}  // namespace ccld::decision::ingest
