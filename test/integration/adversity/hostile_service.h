// Who listens where the probe sends, and answers what no service answers: random bytes, parts of control messages,
// messages of any length, as many as go through.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "zmq.hpp"

namespace ccld::adversity {

class HostileService {
 public:
  HostileService();
  ~HostileService();
  const std::string& endpoint() const { return endpoint_; }
  uint64_t sent() const { return sent_; }

 private:
  void run();
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::string endpoint_;
  std::atomic<bool> end_{false};
  std::atomic<uint64_t> sent_{0};
  std::thread thread_;
};

}  // namespace ccld::adversity
