// Who may connect to the telemetry socket: answers libzmq's questions about keys (ZAP, ZeroMQ's RFC 27), and counts who
// was turned away. Connections are encrypted and both ends prove their keys (CURVE, RFC 26).
//
// Contract
//   A client whose key is in the list is let in under that key. All others are told so and turned away; each cause is
//   logged once. A client that has no key, or another one for us, gets not as far as that: libzmq turns it away, and
//   does not say who it was.
// Threads: one of its own, so that nobody waits at the door while the analysis works. Counters: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "decision/admission/book.h"
#include "decision/ingest/distinct_errors.h"
#include "decision/ingest/door_counters.h"
#include "zmq.hpp"

namespace ccld::decision::ingest {

struct DoorOptions {
  std::shared_ptr<const admission::SecretBook> secret;  // ours
  std::shared_ptr<const admission::KeyBook> keys;
  Nanoseconds (*now_ns)() = nullptr;  // monotonic
};

class Door {
 public:
  // Before `socket` is bound. Errors: zmq::error_t.
  Door(zmq::context_t&, zmq::socket_t& socket, const DoorOptions&);
  ~Door();  // before the socket is closed
  Door(const Door&) = delete;

  DoorCounters counters() const;
  std::vector<DistinctError> errors() const;
  const admission::KeyBook& keys() const { return *keys_; }

 private:
  void run();
  void answer_question();
  void read_event();
  void refuse(DoorReason, const std::string& key, const std::string& text);

  const std::shared_ptr<const admission::KeyBook> keys_;
  Nanoseconds (*const now_ns_)();
  void* const watched_;
  zmq::socket_t questions_, events_, end_, told_to_end_;
  mutable std::mutex mutex_;
  DoorCounters counters_;  // guarded by mutex_
  DistinctErrors errors_;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace ccld::decision::ingest
