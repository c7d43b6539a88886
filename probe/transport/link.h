// How far the connection to the decision service has come, from what libzmq's socket monitor tells of it.
//
// Contract: events in the order in which they happened, with the time at which they were read. libzmq does not say why
// an attempt failed, but the failures differ in their events:
//
//   RETRIED                           the name has no address
//   CLOSED, RETRIED                   refused at once: nothing listens, or there is no route
//   DELAYED, CLOSED, RETRIED          refused, if soon; otherwise nobody answered
//   DELAYED, CONNECTED                somebody listens
//   ..., HANDSHAKE_SUCCEEDED          and speaks ZeroMQ
//
// Pure. Threads: one at a time.
#pragma once

#include <cstdint>

namespace ccld::probe {

enum class Link : uint8_t {
  connecting,  // no attempt has ended yet, or a connection was just lost
  unresolved,  // the name has no address
  refused,     // nothing listens there, or there is no route
  unanswered,  // nobody answers at that address
  mute,        // somebody listens there, and does not answer as ZeroMQ does
  up,
};

enum class LinkEvent : uint8_t { attempt, attempt_closed, retry, accepted, handshake, handshake_failed, disconnected };

// A refusal takes a round trip. An attempt that nobody answers ends after 10 s (ZMQ_TCP_MAXRT) or more. Events are read
// at least once a second.
constexpr uint64_t refusal_ns_max = 3'000'000'000;

class LinkTracker {
 public:
  void on(LinkEvent, uint64_t now_ns);

  Link link(uint64_t now_ns) const;
  uint64_t handshakes() const { return handshakes_; }  // so far; one more is another connection

 private:
  // 0: there is none.
  uint64_t attempt_lasts_ns(uint64_t now_ns) const {
    return attempt_ns_ != 0 && now_ns > attempt_ns_ ? now_ns - attempt_ns_ : 0;
  }

  Link link_ = Link::connecting;
  uint64_t handshakes_ = 0;
  uint64_t attempt_ns_ = 0;  // begin of an attempt that has not ended; 0: none
  bool ended_ = false;       // the newest attempt has, one way or the other
};

}  // namespace ccld::probe
