// ZeroMQ DEALER to the decision service, through a libzmq that is loaded when it is needed and stays private to the
// probe (the process may already hold another copy).
//
// Contract
//   open() returns nullptr after one warning when libzmq is missing or the endpoint is not usable. A service that is
//   not there (yet) is no error, and connection() tells it: up to `queue_max` batches wait for it, further ones are
//   refused as `full`. With keys nothing leaves this process before the other end has proved that it has the secret of
//   `keys.server`. An end that does not want us is left alone for a while, and what waits for it is lost
//   (`queues_lost`). Before it is tried again the keys are read again: theirs or ours may have been changed. Of several
//   endpoints one is used at a time (endpoints.h); what waits when it is left is lost, too. send() never blocks. What
//   the service says is received up to `received_bytes_max` a message; longer ones end the connection. The destructor
//   waits at most `linger_ms` for what is not sent yet.
//
// Threads: one thread at a time; libzmq adds two threads of its own with all signals blocked.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "probe/transport/curve_keys.h"
#include "probe/transport/transport.h"

namespace ccld::probe {

// A request has a handful of numbers and an address.
constexpr int received_bytes_max = 4096;
// Requests that wait to be read; more are refused by libzmq.
constexpr int received_queue_max = 16;

struct ZmqOptions {
  std::string endpoint;  // or several of one service (schemas/endpoints)
  uint64_t choice = 0;   // of the one to begin with: endpoint_choice()
  int queue_max = 0;
  int linger_ms = 0;
  CurveKeys keys;
  // What they are by now; nothing: as before. Empty: they do not change.
  std::function<std::optional<CurveKeys>()> read_keys;
  std::string library = "libzmq.so.5";
};

std::unique_ptr<Transport> open_zmq_transport(const ZmqOptions&);

}  // namespace ccld::probe
