#include "probe/transport/zmq_transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <dlfcn.h>
#include <zmq.h>

#include "probe/counters/log.h"
#include "probe/transport/zmq_needs.h"
#include "schemas/keys/curve_key.h"

namespace ccld::probe {
namespace {

// The functions of libzmq that are used. Types and constants come from <zmq.h>; nothing is linked.
struct ZmqLibrary {
  decltype(&zmq_ctx_new) ctx_new = nullptr;
  decltype(&zmq_ctx_term) ctx_term = nullptr;
  decltype(&zmq_socket) socket = nullptr;
  decltype(&zmq_setsockopt) setsockopt = nullptr;
  decltype(&zmq_connect) connect = nullptr;
  decltype(&zmq_send) send = nullptr;
  decltype(&zmq_recv) recv = nullptr;
  decltype(&zmq_close) close = nullptr;
  decltype(&zmq_errno) last_error = nullptr;
  decltype(&zmq_strerror) error_text = nullptr;
  decltype(&zmq_socket_monitor) socket_monitor = nullptr;
  // Only with keys; nullptr: this libzmq has none of it.
  decltype(&zmq_curve_public) curve_public = nullptr;
  decltype(&zmq_disconnect) disconnect = nullptr;
};

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
  const bool mechanism = event.number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
                         value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH;
  return mechanism ? LinkEvent::keys_one_sided : event.meaning;
}
constexpr const char* monitor_endpoint = "inproc://ccld-monitor";  // each transport has a context of its own

template <class Function>
bool resolve(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

// The library stays loaded: unloading code whose threads may still be unwinding is not worth the memory.
bool load(const std::string& name, ZmqLibrary* zmq, std::string* error) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    *error = reason != nullptr ? reason : "unknown error";
    return false;
  }
  if (resolve(handle, "zmq_ctx_new", &zmq->ctx_new) && resolve(handle, "zmq_ctx_term", &zmq->ctx_term) &&
      resolve(handle, "zmq_socket", &zmq->socket) && resolve(handle, "zmq_setsockopt", &zmq->setsockopt) &&
      resolve(handle, "zmq_connect", &zmq->connect) && resolve(handle, "zmq_send", &zmq->send) &&
      resolve(handle, "zmq_recv", &zmq->recv) &&
      resolve(handle, "zmq_close", &zmq->close) && resolve(handle, "zmq_errno", &zmq->last_error) &&
      resolve(handle, "zmq_strerror", &zmq->error_text) && resolve(handle, "zmq_socket_monitor", &zmq->socket_monitor)) {
    resolve(handle, "zmq_curve_public", &zmq->curve_public);
    resolve(handle, "zmq_disconnect", &zmq->disconnect);
    return true;
  }
  *error = name + " lacks a function of the ZeroMQ API";
  return false;
}

class ZmqTransport final : public Transport {
 public:
  // `monitor` may be null: then the other end is taken to be there.
  ZmqTransport(const ZmqLibrary& zmq, const ZmqOptions& options, void* context, void* socket, void* monitor)
      : zmq_(zmq),
        endpoint_(options.endpoint),
        context_(context),
        socket_(socket),
        monitor_(monitor),
        tracker_(options.keys.used()) {}
  ~ZmqTransport() override {
    if (monitor_ != nullptr) {
      zmq_.socket_monitor(socket_, nullptr, 0);
      zmq_.close(monitor_);
    }
    zmq_.close(socket_);
    zmq_.ctx_term(context_);  // returns within the socket's linger time
  }

  SendResult send(const uint8_t* data, size_t size) override {
    if (zmq_.send(socket_, data, size, ZMQ_DONTWAIT) >= 0) return SendResult::sent;
    return zmq_.last_error() == EAGAIN ? SendResult::full : SendResult::error;
  }

  Connection connection(uint64_t now_ns) override {
    if (monitor_ == nullptr) return {};
    // An event is two parts: its number (with a value, 6 bytes), and an address.
    uint8_t event[6];
    char address[256];
    while (zmq_.recv(monitor_, event, sizeof event, ZMQ_DONTWAIT) >= 0) {
      uint16_t number = 0;
      uint32_t value = 0;
      std::memcpy(&number, event, sizeof number);
      std::memcpy(&value, event + sizeof number, sizeof value);
      for (const MonitoredEvent& e : monitored_events)
        if (e.number == number && !retry_.away()) tracker_.on(meaning_of(e, value), now_ns);
      if (zmq_.recv(monitor_, address, sizeof address, ZMQ_DONTWAIT) < 0) break;
    }
    switch (retry_.next(tracker_, now_ns)) {
      case Retry::Step::none: break;
      case Retry::Step::leave:
        ++queues_lost_;
        if (zmq_.disconnect != nullptr) zmq_.disconnect(socket_, endpoint_.c_str());
        break;
      case Retry::Step::connect: zmq_.connect(socket_, endpoint_.c_str()); break;
    }
    return {tracker_.link(now_ns), tracker_.handshakes(), queues_lost_};
  }

  bool receive(std::vector<uint8_t>* out) override {
    out->resize(received_bytes_max);
    const int size = zmq_.recv(socket_, out->data(), out->size(), ZMQ_DONTWAIT);
    out->resize(size > 0 ? std::min(static_cast<size_t>(size), out->size()) : 0);
    return size >= 0;
  }

 private:
  const ZmqLibrary zmq_;
  const std::string endpoint_;
  void* const context_;
  void* const socket_;
  void* const monitor_;
  LinkTracker tracker_;
  Retry retry_;
  uint64_t queues_lost_ = 0;
};

// Tells of the connections of `socket`; nullptr: libzmq cannot.
void* open_monitor(const ZmqLibrary& zmq, void* context, void* socket) {
  if (zmq.socket_monitor(socket, monitor_endpoint, monitored_mask()) != 0) return nullptr;
  void* monitor = zmq.socket(context, ZMQ_PAIR);
  if (monitor != nullptr && zmq.connect(monitor, monitor_endpoint) == 0) return monitor;
  if (monitor != nullptr) zmq.close(monitor);
  zmq.socket_monitor(socket, nullptr, 0);
  return nullptr;
}

// False: this libzmq takes no keys, or not these.
bool set_keys(const ZmqLibrary& zmq, void* socket, const CurveKeys& keys) {
  char own[keys::key_chars + 1] = "";
  if (zmq.curve_public == nullptr || zmq.curve_public(own, keys.secret.c_str()) != 0) return false;
  const auto set = [&](int option, const char* key) {
    return zmq.setsockopt(socket, option, key, keys::key_chars + 1) == 0;
  };
  return set(ZMQ_CURVE_SERVERKEY, keys.server.c_str()) && set(ZMQ_CURVE_PUBLICKEY, own) &&
         set(ZMQ_CURVE_SECRETKEY, keys.secret.c_str());
}

}  // namespace

std::unique_ptr<Transport> open_zmq_transport(const ZmqOptions& options) {
  ZmqLibrary zmq;
  std::string error;
  if (!load(options.library, &zmq, &error)) {
    warn_once(Warning::transport_library,
              "nothing is sent to " + options.endpoint + ": ZeroMQ cannot be loaded: " + error);
    return nullptr;
  }
  if (const std::string missing = missing_for_zmq(); !missing.empty()) {
    warn_once(Warning::transport_context, "nothing is sent to " + options.endpoint + ": " + missing);
    return nullptr;
  }
  void* context = zmq.ctx_new();
  void* socket = context != nullptr ? zmq.socket(context, ZMQ_DEALER) : nullptr;
  if (socket == nullptr) {
    warn_once(Warning::transport_context,
              "nothing is sent to " + options.endpoint + ": no ZeroMQ socket: " + zmq.error_text(zmq.last_error()));
    if (context != nullptr) zmq.ctx_term(context);
    return nullptr;
  }
  const auto set = [&](int option, int value) { zmq.setsockopt(socket, option, &value, sizeof value); };
  if (options.keys.used() && !set_keys(zmq, socket, options.keys)) {
    warn_once(Warning::transport_keys, "nothing is sent to " + options.endpoint + ": " + options.library +
                                           " cannot use the keys of NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE: " +
                                           zmq.error_text(zmq.last_error()));
    zmq.close(socket);
    zmq.ctx_term(context);
    return nullptr;
  }
  set(ZMQ_SNDHWM, options.queue_max);
  set(ZMQ_RCVHWM, received_queue_max);
  const int64_t bytes_max = received_bytes_max;
  zmq.setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes_max, sizeof bytes_max);
  set(ZMQ_LINGER, options.linger_ms);
  set(ZMQ_SNDTIMEO, 0);
  set(ZMQ_IPV6, 1);
  set(ZMQ_RECONNECT_IVL, 100);
  set(ZMQ_RECONNECT_IVL_MAX, 2000);
  // A service behind a cut link must not be waited for until TCP gives up after a quarter of an hour.
  set(ZMQ_TCP_MAXRT, 10000);
  void* monitor = open_monitor(zmq, context, socket);
  if (zmq.connect(socket, options.endpoint.c_str()) != 0) {
    warn_once(Warning::transport_endpoint, "nothing is sent: NCCL_PROBE_ENDPOINT=\"" + options.endpoint +
                                               "\" is not usable: " + zmq.error_text(zmq.last_error()));
    set(ZMQ_LINGER, 0);
    if (monitor != nullptr) {
      zmq.socket_monitor(socket, nullptr, 0);
      zmq.close(monitor);
    }
    zmq.close(socket);
    zmq.ctx_term(context);
    return nullptr;
  }
  return std::make_unique<ZmqTransport>(zmq, options, context, socket, monitor);
}

}  // namespace ccld::probe
