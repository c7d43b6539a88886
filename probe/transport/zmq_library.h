// The functions of libzmq that are used. Types and constants come from <zmq.h>; nothing is linked.
// Threads: any.
#pragma once

#include <string>

#include <zmq.h>

namespace ccld::probe {

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

  std::string error() const { return error_text(last_error()); }  // of this thread's last call
};

// False: `error` says why. The library stays loaded: unloading code whose threads may still be unwinding is not worth
// the memory.
bool load_zmq(const std::string& name, ZmqLibrary* zmq, std::string* error);

}  // namespace ccld::probe
