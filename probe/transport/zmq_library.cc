#include "probe/transport/zmq_library.h"

#include <dlfcn.h>

namespace ccld::probe {
namespace {

template <class Function>
bool resolve(void* handle, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  return *function != nullptr;
}

}  // namespace

bool load_zmq(const std::string& name, ZmqLibrary* zmq, std::string* error) {
  void* handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    *error = reason != nullptr ? reason : "unknown error";
    return false;
  }
  if (resolve(handle, "zmq_ctx_new", &zmq->ctx_new) && resolve(handle, "zmq_ctx_term", &zmq->ctx_term) &&
      resolve(handle, "zmq_socket", &zmq->socket) && resolve(handle, "zmq_setsockopt", &zmq->setsockopt) &&
      resolve(handle, "zmq_connect", &zmq->connect) && resolve(handle, "zmq_send", &zmq->send) &&
      resolve(handle, "zmq_recv", &zmq->recv) && resolve(handle, "zmq_close", &zmq->close) &&
      resolve(handle, "zmq_errno", &zmq->last_error) && resolve(handle, "zmq_strerror", &zmq->error_text) &&
      resolve(handle, "zmq_socket_monitor", &zmq->socket_monitor)) {
    resolve(handle, "zmq_curve_public", &zmq->curve_public);
    return true;
  }
  *error = name + " lacks a function of the ZeroMQ API";
  return false;
}

}  // namespace ccld::probe
