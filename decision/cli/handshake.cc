#include "decision/cli/handshake.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "decision/admission/files.h"
#include "decision/admission/key_pair.h"
#include "schemas/keys/curve_key.h"
#include "zmq.hpp"

namespace ccld::decision {
namespace {

constexpr char monitor[] = "inproc://handshake";
// With keys: what breaks off so often has another key or is another program. Without: where the other side demands
// keys each hangs up as soon as it sees that; who is first to see it is chance, and only then does libzmq say why. So
// it is tried until the timeout: beside busy loops that twice the processors run, one attempt in four tells.
constexpr int broken_off_max = 5;

absl::Status naming(const char* setting, const absl::Status& status) {
  return {status.code(), absl::StrCat(setting, ": ", status.message())};
}

absl::StatusOr<std::string> server_key_of(const std::string& text) {
  if (text.front() != '/') {
    if (keys::is_key(text)) return text;
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is neither a key of 40 characters nor an absolute path"));
  }
  const auto content = admission::read_file(text, keys::key_file_bytes_max);
  if (!content.ok()) return content.status();
  const keys::FileKey found = keys::key_in(*content);
  if (found.key.empty()) return absl::InvalidArgumentError(absl::StrCat("'", text, "' does not hold one key"));
  if (found.kind == keys::KeyKind::secret)
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' holds a secret key, the public one of the service is needed"));
  return std::string(found.key);
}

}  // namespace

absl::StatusOr<std::optional<ProbeKeys>> read_probe_keys(const std::string& server_key, const std::string& key_file) {
  if (server_key.empty() && key_file.empty()) return std::nullopt;
  if (server_key.empty())
    return absl::InvalidArgumentError("NCCL_PROBE_KEY_FILE is set, and NCCL_PROBE_SERVER_KEY is not");
  if (key_file.empty())
    return absl::InvalidArgumentError("NCCL_PROBE_SERVER_KEY is set, and NCCL_PROBE_KEY_FILE is not");
  ProbeKeys result;
  auto server = server_key_of(server_key);
  if (!server.ok()) return naming("NCCL_PROBE_SERVER_KEY", server.status());
  auto secret = admission::read_secret_key(key_file);
  if (!secret.ok()) return naming("NCCL_PROBE_KEY_FILE", secret.status());
  auto open = admission::public_key_of(*secret);
  if (!open.ok()) return naming("NCCL_PROBE_KEY_FILE", open.status());
  return ProbeKeys{*std::move(server), *std::move(open), *std::move(secret)};
}

Handshake try_handshake(const std::string& endpoint, const std::optional<ProbeKeys>& probe_keys,
                        std::chrono::milliseconds timeout) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::dealer), events(context, zmq::socket_type::pair);
  socket.set(zmq::sockopt::linger, 0);
  events.set(zmq::sockopt::linger, 0);
  if (probe_keys.has_value()) {
    socket.set(zmq::sockopt::curve_serverkey, probe_keys->server);
    socket.set(zmq::sockopt::curve_publickey, probe_keys->open);
    socket.set(zmq::sockopt::curve_secretkey, probe_keys->secret);
  }
  if (zmq_socket_monitor(socket.handle(), monitor, ZMQ_EVENT_ALL) != 0) throw zmq::error_t();
  events.connect(monitor);
  socket.connect(endpoint);
  bool connected = false;
  int broken_off = 0;
  const auto until = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0) break;
    events.set(zmq::sockopt::rcvtimeo, static_cast<int>(left));
    zmq::message_t event, address;
    uint16_t number = 0;
    uint32_t value = 0;
    if (!events.recv(event) || event.size() < sizeof(number) + sizeof(value) || !events.recv(address)) break;
    std::memcpy(&number, event.data(), sizeof(number));
    std::memcpy(&value, event.data<char>() + sizeof(number), sizeof(value));
    switch (number) {
      case ZMQ_EVENT_CONNECTED: connected = true; break;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED: return Handshake::done;
      case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH: return Handshake::rejected;
      case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        return value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? Handshake::one_sided : Handshake::broken_off;
      case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        if (++broken_off >= broken_off_max && probe_keys.has_value()) return Handshake::broken_off;
        break;
      default: break;
    }
  }
  return broken_off > 0 ? Handshake::broken_off : connected ? Handshake::silent : Handshake::unreachable;
}

}  // namespace ccld::decision
