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
//   ..., FAILED_AUTH                  and does not accept our key
//   ..., FAILED_PROTOCOL (mechanism)  one side demands keys, the other has none; where the other side sees that first,
//                                     it is as the next
//   ..., FAILED_NO_DETAIL at once     with keys: the other end has another key than the one we were told, or none
//
// What refuses us is remembered until there is a connection or something else is known: libzmq tells it at some
// attempts only. After FAILED_AUTH and after any breach of its protocol, before the handshake or behind it, libzmq does
// not try again by itself: DISCONNECTED, which RETRIED follows otherwise, is the last event then (Retry).
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
  // The handshake failed, and will fail again.
  rejected,   // our key is not accepted
  one_sided,  // one side demands keys, the other uses none
  other_key,  // the other end has another key than the one we were told, or none
};

constexpr bool is_barred(Link link) {
  return link == Link::rejected || link == Link::one_sided || link == Link::other_key;
}

enum class LinkEvent : uint8_t {
  attempt,
  attempt_closed,
  retry,
  accepted,
  handshake,
  handshake_failed,  // without a reason
  protocol_failed,   // the other end said what it should not have
  key_rejected,
  keys_one_sided,
  disconnected,
};

// A refusal takes a round trip. An attempt that nobody answers ends after 10 s (ZMQ_TCP_MAXRT) or more. Events are read
// at least once a second.
constexpr uint64_t refusal_ns_max = 3'000'000'000;
// A handshake that the other end breaks off once may be a service that was just ending. Why it ends there (it uses no
// keys), the other end tells at one attempt in four on a busy host. So many take some 1.5 s.
constexpr unsigned broken_off_min = 5;
// How long a barred link is left alone: a hundred thousand processes with a wrong key must not keep the service from
// its work, and one whose key was added is not waited for longer than a minute.
constexpr uint64_t barred_wait_ns_min = 2'000'000'000, barred_wait_ns_max = 60'000'000'000;
// libzmq says at once that it will try again, if it will. Events are read at least once a second.
constexpr uint64_t given_up_ns = 3'000'000'000;

class LinkTracker {
 public:
  // `keys`: this end uses them.
  explicit LinkTracker(bool keys = false) : keys_(keys) {}

  void on(LinkEvent, uint64_t now_ns);
  // This end has closed the connection and ended all attempts: no event follows.
  void left();

  Link link(uint64_t now_ns) const;
  uint64_t handshakes() const { return handshakes_; }  // so far; one more is another connection
  uint64_t barrings() const { return barrings_; }      // attempts so far that ended in a barred link
  uint64_t disconnections() const { return disconnections_; }
  // libzmq has lost the connection and does not look for another one.
  bool given_up(uint64_t now_ns) const {
    return disconnected_ns_ != 0 && now_ns > disconnected_ns_ && now_ns - disconnected_ns_ >= given_up_ns;
  }

 private:
  void bar(Link);
  void handshake_failed(uint64_t now_ns);
  // 0: there is none.
  uint64_t attempt_lasts_ns(uint64_t now_ns) const {
    return attempt_ns_ != 0 && now_ns > attempt_ns_ ? now_ns - attempt_ns_ : 0;
  }

  bool keys_;
  Link link_ = Link::connecting;
  uint64_t handshakes_ = 0, barrings_ = 0, disconnections_ = 0;
  uint64_t disconnected_ns_ = 0;  // when the connection ended, as long as nothing has followed; 0: something has
  uint64_t attempt_ns_ = 0;       // begin of an attempt that has not ended; 0: none
  uint64_t accepted_ns_ = 0;      // when the newest connection was accepted
  unsigned broken_off_ = 0;       // handshakes one after the other
  bool ended_ = false;            // the newest attempt has, one way or the other
};

// When to leave an endpoint that bars us, or that libzmq has given up, and when to try again.
class Retry {
 public:
  enum class Step : uint8_t { none, leave, connect };

  Step next(const LinkTracker&, uint64_t now_ns);
  // An attempt could not even begin.
  void postpone(uint64_t now_ns);
  bool away() const { return away_; }
  // It is not away, or may be connected to again.
  bool due(uint64_t now_ns) const { return !away_ || now_ns >= due_ns_; }

 private:
  uint64_t barrings_ = 0;
  uint64_t disconnections_ = 0;  // up to which a loss of the connection is dealt with
  uint64_t wait_ns_ = barred_wait_ns_min;
  uint64_t due_ns_ = 0;
  bool away_ = false;
};

}  // namespace ccld::probe
