#include "probe/transport/zmq_line.h"

#include <cstring>

#include "schemas/keys/curve_key.h"

namespace ccld::probe {
namespace {

// What the monitor tells of each attempt to connect, and of the connection.
struct MonitoredEvent {
  uint16_t number;
  LinkEvent meaning;
};
constexpr MonitoredEvent monitored_events[] = {
    {ZMQ_EVENT_CONNECT_DELAYED, LinkEvent::attempt},
    {ZMQ_EVENT_CLOSED, LinkEvent::attempt_closed},
    {ZMQ_EVENT_CONNECT_RETRIED, LinkEvent::retry},
    {ZMQ_EVENT_CONNECTED, LinkEvent::accepted},
    {ZMQ_EVENT_HANDSHAKE_SUCCEEDED, LinkEvent::handshake},
    {ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL, LinkEvent::handshake_failed},
    {ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL, LinkEvent::protocol_failed},
    {ZMQ_EVENT_HANDSHAKE_FAILED_AUTH, LinkEvent::key_rejected},
    {ZMQ_EVENT_DISCONNECTED, LinkEvent::disconnected},
};
constexpr int monitored_mask() {
  int mask = 0;
  for (const MonitoredEvent& e : monitored_events) mask |= e.number;
  return mask;
}
LinkEvent meaning_of(const MonitoredEvent& event, uint32_t value) {
  const bool mechanism =
      event.number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL && value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
  return mechanism ? LinkEvent::keys_one_sided : event.meaning;
}

}  // namespace

// False: this libzmq takes no keys, or not these.
bool ZmqLine::set_keys(const CurveKeys& keys) {
  char own[keys::key_chars + 1] = "";
  if (zmq_.curve_public == nullptr || zmq_.curve_public(own, keys.secret.c_str()) != 0) return false;
  const auto set_key = [this](int option, const char* key) {
    return zmq_.setsockopt(socket_, option, key, keys::key_chars + 1) == 0;
  };
  return set_key(ZMQ_CURVE_SERVERKEY, keys.server.c_str()) && set_key(ZMQ_CURVE_PUBLICKEY, own) &&
         set_key(ZMQ_CURVE_SECRETKEY, keys.secret.c_str());
}

void ZmqLine::open_monitor(void* context, uint64_t number) {
  const std::string name = "inproc://ccld-monitor-" + std::to_string(number);
  if (zmq_.socket_monitor(socket_, name.c_str(), monitored_mask()) != 0) return;
  monitor_ = zmq_.socket(context, ZMQ_PAIR);
  if (monitor_ != nullptr && zmq_.connect(monitor_, name.c_str()) == 0) return;
  if (monitor_ != nullptr) zmq_.close(monitor_);
  monitor_ = nullptr;
  zmq_.socket_monitor(socket_, nullptr, 0);
}

std::unique_ptr<ZmqLine> ZmqLine::open(const ZmqLibrary& zmq, void* context, const ZmqOptions& options,
                                       const std::string& endpoint, uint64_t number, ZmqLineError* error) {
  std::unique_ptr<ZmqLine> line(new ZmqLine(zmq));
  const auto failed = [&](ZmqLineError::What what) {
    *error = {what, zmq.error()};
    if (line->socket_ != nullptr) line->give_up();
    return nullptr;
  };
  line->socket_ = zmq.socket(context, ZMQ_DEALER);
  if (line->socket_ == nullptr) return failed(ZmqLineError::What::socket);
  if (options.keys.used() && !line->set_keys(options.keys)) return failed(ZmqLineError::What::keys);
  line->set(ZMQ_SNDHWM, options.queue_max);
  line->set(ZMQ_RCVHWM, received_queue_max);
  const int64_t bytes_max = received_bytes_max;
  zmq.setsockopt(line->socket_, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max);
  line->set(ZMQ_LINGER, options.linger_ms);
  line->set(ZMQ_SNDTIMEO, 0);
  line->set(ZMQ_IPV6, 1);
  line->set(ZMQ_RECONNECT_IVL, 100);
  line->set(ZMQ_RECONNECT_IVL_MAX, 2000);
  // A service behind a cut link must not be waited for until TCP gives up after a quarter of an hour.
  line->set(ZMQ_TCP_MAXRT, 10000);
  line->open_monitor(context, number);
  if (zmq.connect(line->socket_, endpoint.c_str()) != 0) return failed(ZmqLineError::What::endpoint);
  return line;
}

ZmqLine::~ZmqLine() {
  if (monitor_ != nullptr) {
    zmq_.socket_monitor(socket_, nullptr, 0);
    zmq_.close(monitor_);
  }
  if (socket_ != nullptr) zmq_.close(socket_);
}

bool ZmqLine::next_event(LinkEvent* event) {
  if (monitor_ == nullptr) return false;
  // An event is two parts: its number (with a value, 6 bytes), and an address.
  uint8_t told[6];
  char address[256];
  while (zmq_.recv(monitor_, told, sizeof told, ZMQ_DONTWAIT) >= 0) {
    uint16_t number = 0;
    uint32_t value = 0;
    std::memcpy(&number, told, sizeof number);
    std::memcpy(&value, told + sizeof number, sizeof value);
    zmq_.recv(monitor_, address, sizeof address, ZMQ_DONTWAIT);
    for (const MonitoredEvent& e : monitored_events) {
      if (e.number != number) continue;
      *event = meaning_of(e, value);
      return true;
    }
  }
  return false;
}

void ZmqLine::give_up() { set(ZMQ_LINGER, 0); }

}  // namespace ccld::probe
