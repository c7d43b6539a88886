#include "probe/transport/zmq_transport.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "probe/counters/log.h"
#include "probe/transport/endpoints.h"
#include "probe/transport/zmq_library.h"
#include "probe/transport/zmq_line.h"
#include "probe/transport/zmq_needs.h"
#include "schemas/endpoints/endpoint_list.h"

namespace ccld::probe {
namespace {

class ZmqTransport final : public Transport {
 public:
  ZmqTransport(const ZmqLibrary& zmq, const ZmqOptions& options, Endpoints endpoints, void* context)
      : zmq_(zmq), options_(options), endpoints_(std::move(endpoints)), context_(context) {}
  ~ZmqTransport() override {
    line_.reset();
    zmq_.ctx_term(context_);  // returns within the line's linger time
  }

  // To the endpoint in use. False: `error` says why.
  bool open_line(ZmqLineError* error) {
    line_ = ZmqLine::open(zmq_, context_, options_, endpoints_.in_use(), ++lines_, error);
    return line_ != nullptr;
  }

  SendResult send(const uint8_t* data, size_t size) override {
    if (line_ == nullptr) return SendResult::full;
    if (zmq_.send(line_->socket(), data, size, ZMQ_DONTWAIT) >= 0) return SendResult::sent;
    return zmq_.last_error() == EAGAIN ? SendResult::full : SendResult::error;
  }

  Connection connection(uint64_t now_ns) override {
    if (line_ != nullptr && !line_->monitored()) return {};  // the other end is taken to be there
    for (LinkEvent event; line_ != nullptr && line_->next_event(&event);) endpoints_.on(event, now_ns);
    for (auto step = endpoints_.next(now_ns); step != Endpoints::Step::none; step = endpoints_.next(now_ns))
      take(step, now_ns);
    Connection connection;
    connection.link = endpoints_.link(now_ns);
    connection.handshakes = endpoints_.handshakes();
    connection.queues_lost = endpoints_.left();
    connection.endpoints = endpoints_.size();
    connection.endpoint = endpoints_.index();
    connection.moves = endpoints_.moves();
    return connection;
  }

  bool receive(std::vector<uint8_t>* out) override {
    out->resize(received_bytes_max);
    const int size = line_ != nullptr ? zmq_.recv(line_->socket(), out->data(), out->size(), ZMQ_DONTWAIT) : -1;
    out->resize(size > 0 ? std::min(static_cast<size_t>(size), out->size()) : 0);
    if (size >= 0) endpoints_.heard();
    return size >= 0;
  }

  void unanswered() override { endpoints_.unanswered(); }

 private:
  void take(Endpoints::Step step, uint64_t now_ns) {
    if (step == Endpoints::Step::leave) {
      if (line_ != nullptr) line_->give_up();
      line_.reset();
      return;
    }
    if (options_.keys.used() && options_.read_keys) options_.keys = options_.read_keys().value_or(options_.keys);
    ZmqLineError error;
    if (missing_for_zmq_socket().empty() && open_line(&error) && line_->monitored()) return;
    line_.reset();
    endpoints_.not_connected(now_ns);
  }

  const ZmqLibrary zmq_;
  ZmqOptions options_;
  Endpoints endpoints_;
  void* const context_;
  std::unique_ptr<ZmqLine> line_;  // nullptr: the endpoint in use is left
  uint64_t lines_ = 0;             // so far
};

}  // namespace

std::unique_ptr<Transport> open_zmq_transport(const ZmqOptions& options) {
  const std::string nothing = "nothing is sent to " + options.endpoint + ": ";
  const auto unusable = [&options](const std::string& why) {
    warn_once(Warning::transport_endpoint,
              "nothing is sent: NCCL_PROBE_ENDPOINT=\"" + options.endpoint + "\" is not usable: " + why);
  };
  const std::vector<std::string> list = endpoints_in(options.endpoint);
  if (list.empty()) {
    unusable("it is no endpoint");
    return nullptr;
  }
  ZmqLibrary zmq;
  std::string error;
  if (!load_zmq(options.library, &zmq, &error)) {
    warn_once(Warning::transport_library, nothing + "ZeroMQ cannot be loaded: " + error);
    return nullptr;
  }
  if (const std::string missing = missing_for_zmq(); !missing.empty()) {
    warn_once(Warning::transport_context, nothing + missing);
    return nullptr;
  }
  void* context = zmq.ctx_new();
  if (context == nullptr) {
    warn_once(Warning::transport_context, nothing + "no ZeroMQ socket: " + zmq.error());
    return nullptr;
  }
  auto transport =
      std::make_unique<ZmqTransport>(zmq, options, Endpoints(list, options.choice, options.keys.used()), context);
  ZmqLineError failure;
  if (transport->open_line(&failure)) return transport;
  switch (failure.what) {
    case ZmqLineError::What::keys:
      warn_once(Warning::transport_keys,
                nothing + options.library +
                    " cannot use the keys of NCCL_PROBE_SERVER_KEY and NCCL_PROBE_KEY_FILE: " + failure.text);
      break;
    case ZmqLineError::What::endpoint: unusable(failure.text); break;
    default: warn_once(Warning::transport_context, nothing + "no ZeroMQ socket: " + failure.text); break;
  }
  return nullptr;
}

}  // namespace ccld::probe
