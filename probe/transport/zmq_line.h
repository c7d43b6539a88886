// A DEALER socket that is connected to one endpoint, and the monitor that tells of its connection.
//
// Contract
//   Opened whole or not at all. Its end waits for nothing; what is not sent yet lingers in the context (linger_ms), or
//   is given up. libzmq ends a connection in its own time: a line of its own for each endpoint keeps events of
//   the last one out of the next.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "probe/transport/link.h"
#include "probe/transport/zmq_library.h"
#include "probe/transport/zmq_transport.h"

namespace ccld::probe {

struct ZmqLineError {
  enum class What : uint8_t { none, socket, keys, endpoint };
  What what = What::none;
  std::string text;
};

class ZmqLine {
 public:
  // `number`: another one for each line of a context. nullptr: `error` says why.
  static std::unique_ptr<ZmqLine> open(const ZmqLibrary&, void* context, const ZmqOptions&, const std::string& endpoint,
                                       uint64_t number, ZmqLineError* error);
  ~ZmqLine();
  ZmqLine(const ZmqLine&) = delete;

  void* socket() const { return socket_; }
  // Without it nothing is known of the connection.
  bool monitored() const { return monitor_ != nullptr; }
  // The oldest that was not read yet. False: none.
  bool next_event(LinkEvent* event);
  // What is not sent yet is not sent any more.
  void give_up();

 private:
  explicit ZmqLine(const ZmqLibrary& zmq) : zmq_(zmq) {}
  bool set(int option, int value) { return zmq_.setsockopt(socket_, option, &value, sizeof value) == 0; }
  bool set_keys(const CurveKeys&);
  void open_monitor(void* context, uint64_t number);

  const ZmqLibrary& zmq_;
  void* socket_ = nullptr;
  void* monitor_ = nullptr;
};

}  // namespace ccld::probe
