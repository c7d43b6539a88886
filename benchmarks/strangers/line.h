// A connection to the service, as a probe has one: batches of one process, numbered.
// Contract: sending never waits; what finds no room is dropped. Threads: one.
#pragma once

#include <time.h>

#include <cstdint>
#include <string>

#include "probe/transport/encoder.h"
#include "zmq.hpp"

namespace ccld::bench {

inline int64_t clock_ns(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}
inline int64_t monotonic_ns() { return clock_ns(CLOCK_MONOTONIC); }

class Line {
 public:
  // `from`: an address of this host, or nothing.
  Line(zmq::context_t& context, const std::string& endpoint, const std::string& from = "")
      : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::reconnect_ivl, 100);
    const std::string scheme = "tcp://";
    socket_.connect(from.empty() ? endpoint : scheme + from + ":0;" + endpoint.substr(scheme.size()));
  }
  void send(const probe::Sender& sender, uint64_t batch_seq, probe::BatchEncoder& encoder) {
    const auto bytes =
        encoder.finish(sender, batch_seq, clock_ns(CLOCK_REALTIME), static_cast<uint64_t>(monotonic_ns()));
    (void)socket_.send(zmq::const_buffer(bytes.data, bytes.size), zmq::send_flags::dontwait);
  }

 private:
  zmq::socket_t socket_;
};

}  // namespace ccld::bench
