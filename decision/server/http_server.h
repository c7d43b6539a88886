// httplib's server with bounds on what a client may cost: bytes of a request, whatever it says of them, time to send it
// and to take the answer, threads, and connections that wait. httplib itself bounds none of headers, chunked bodies and
// the time that a client may take if it sends a byte now and then.
//
// Contract
//   A request is request_bytes_max at most, with headers and body; a longer one is answered 431 and not read on.
//   A client that is slow to send or to take the answer is cut off. While most threads are busy, or its address has its
//   share of them, sooner.
//   A connection has no thread before the head of its request has come. Threads, and the room to wait for one, are
//   shared between addresses (connection_queue.h): whatever one does, others are answered. Who finds no room is
//   answered 503. With TLS its handshake counts as part of the request's time. Who speaks plain HTTP then is cut off.
//   `Range` is ignored: documents are made for each answer, so parts of two would not fit together.
// Threads: as httplib::Server.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "decision/report/http_counters.h"
#include "decision/server/connection_pool.h"
#include "decision/server/tls.h"
#include "httplib.h"

namespace ccld::decision::server {

struct HttpLimits {
  size_t threads = 16;
  // So many threads are kept for clients that are quick: all others being busy, timeouts are short.
  size_t threads_in_reserve = 4;
  // A quarter. With so many in reserve another address finds its own share free.
  size_t threads_of_address = 4;
  size_t connections_waiting_max = 128;  // silent ones too
  int backlog = 128;  // in the kernel, before these
  size_t request_bytes_max = 16 * 1024;  // a browser's headers take 2 KiB, the largest body 4 KiB
  std::chrono::milliseconds request_timeout{1000}, request_timeout_busy{100};
  // An answer is 1 MiB at most, 10 seconds for it are a link of 1 Mbit/s.
  std::chrono::milliseconds answer_timeout{10'000}, answer_timeout_busy{1000};
};

class HttpServer : public httplib::Server {
 public:
  // `tls`: nullptr: plain HTTP.
  explicit HttpServer(const HttpLimits& = {}, std::shared_ptr<const TlsBook> tls = nullptr);

  // Between bind_to_port() and listen_after_bind(): httplib lets five connections wait in the kernel, and who is the sixth
  // tries again after a second.
  void widen_backlog();
  // From any thread.
  report::HttpCounters counters() const { return pool_.counters(); }

 private:
  bool process_and_close_socket(socket_t) override;  // on the thread that accepts
  std::optional<report::HttpRefusal> serve(socket_t, bool hurry);

  const HttpLimits limits_;
  const std::shared_ptr<const TlsBook> tls_;
  ConnectionPool pool_;
};

}  // namespace ccld::decision::server
