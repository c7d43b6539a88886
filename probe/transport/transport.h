// Where encoded batches go. The agent knows this interface; tests put their own behind it.
//
// Contract: send() and receive() never block and never throw.
// Threads: one object, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "probe/transport/link.h"

namespace ccld::probe {

enum class SendResult : uint8_t { sent, full, error };

class Transport {
 public:
  virtual ~Transport() = default;
  // `sent`: the transport has taken a copy; it may still be lost on the way, which the service sees as a gap in
  // batch_seq.
  virtual SendResult send(const uint8_t* data, size_t size) = 0;
  struct Connection {
    Link link = Link::up;
    uint64_t handshakes = 0;   // so far; one more is another connection
    uint64_t queues_lost = 0;  // so far: times that all that waited was given up
    // Of one service, of which one is used at a time.
    size_t endpoints = 1;
    size_t endpoint = 0;  // the one in use, in the order in which they were given
    uint64_t moves = 0;   // so far, from one to another
  };
  // How far it has come. What is sent while it is not `up` waits for it.
  virtual Connection connection(uint64_t now_ns) {
    (void)now_ns;
    return {};
  }
  // The service has not acknowledged what it was asked to: of several endpoints, another one is to be used.
  virtual void unanswered() {}
  // A message from the other end, if one has arrived. False: none.
  virtual bool receive(std::vector<uint8_t>* out) {
    (void)out;
    return false;
  }
};

}  // namespace ccld::probe
