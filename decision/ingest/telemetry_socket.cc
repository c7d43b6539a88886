#include "decision/ingest/telemetry_socket.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "decision/ingest/limits.h"

namespace ccld::decision::ingest {
namespace {

// Messages waiting per sender. When it is full the sender's own queue fills and the probe drops and counts: the service
// never holds more than this for a process, however slow it is.
constexpr int queued_messages_max = 1000;

}  // namespace

absl::StatusOr<TelemetrySocket> TelemetrySocket::open(const std::string& endpoint) {
  if (!absl::StartsWith(endpoint, "tcp://") && !absl::StartsWith(endpoint, "ipc://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", endpoint, "' is not an endpoint: tcp://address:port or ipc://path is expected"));
  }
  try {
    TelemetrySocket result;
    result.socket_.set(zmq::sockopt::rcvhwm, queued_messages_max);
    result.socket_.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(message_bytes_max));
    result.socket_.set(zmq::sockopt::linger, 0);
    if (absl::StrContains(endpoint, "tcp://[")) result.socket_.set(zmq::sockopt::ipv6, 1);
    result.socket_.bind(endpoint);
    result.endpoint_ = result.socket_.get(zmq::sockopt::last_endpoint);
    return result;
  } catch (const zmq::error_t& e) {
    return e.num() == EINVAL ? absl::InvalidArgumentError(absl::StrCat("'", endpoint, "' is not a valid endpoint"))
                             : absl::UnavailableError(absl::StrCat("cannot listen on '", endpoint, "': ", e.what()));
  }
}

TelemetrySocket::Received TelemetrySocket::receive(absl::Span<const uint8_t>& bytes) {
  try {
    if (!socket_.recv(message_, zmq::recv_flags::dontwait)) return Received::nothing;
    bool multipart = false;
    while (message_.more()) {  // ZeroMQ delivers the parts of a message together
      multipart = true;
      if (!socket_.recv(message_, zmq::recv_flags::dontwait)) break;
    }
    bytes = absl::MakeConstSpan(message_.data<uint8_t>(), message_.size());
    return multipart ? Received::multipart : Received::message;
  } catch (const zmq::error_t&) {  // EINTR, or the context ends
    return Received::nothing;
  }
}

}  // namespace ccld::decision::ingest
