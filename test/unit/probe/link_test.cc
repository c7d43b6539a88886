#include "probe/transport/link.h"

#include <initializer_list>

#include <catch2/catch.hpp>

#include "probe/agent/clock.h"

namespace ccld::probe {
namespace {

using E = LinkEvent;

struct Attempts {
  void happen(std::initializer_list<LinkEvent> events) {
    for (const LinkEvent e : events) tracker.on(e, now_ns);
  }
  Link link() const { return tracker.link(now_ns); }

  LinkTracker tracker;
  uint64_t now_ns = 1000 * ns_per_s;
};

TEST_CASE("before anything is known it is connecting") { CHECK(Attempts().link() == Link::connecting); }

TEST_CASE("a name without an address is only tried again") {
  Attempts a;
  a.happen({E::retry});
  CHECK(a.link() == Link::unresolved);
  a.happen({E::retry, E::retry});
  CHECK(a.link() == Link::unresolved);
}

TEST_CASE("a refusal is soon, at once or after a round trip, and stays known during the next attempt") {
  Attempts a;
  a.happen({E::attempt_closed, E::retry});
  CHECK(a.link() == Link::refused);
  a.happen({E::attempt});
  a.now_ns += ns_per_s;
  a.happen({E::attempt_closed, E::retry});
  CHECK(a.link() == Link::refused);
  a.happen({E::attempt});
  CHECK(a.link() == Link::refused);
}

TEST_CASE("an attempt that nobody answers is known before it ends") {
  Attempts a;
  a.happen({E::attempt});
  a.now_ns += 2 * ns_per_s;
  CHECK(a.link() == Link::connecting);
  a.now_ns += 2 * ns_per_s;
  CHECK(a.link() == Link::unanswered);
  a.now_ns += 8 * ns_per_s;
  a.happen({E::attempt_closed, E::retry, E::attempt});
  CHECK(a.link() == Link::unanswered);
}

TEST_CASE("a look with an older time than the attempt's takes it for no long attempt") {
  Attempts a;
  a.happen({E::attempt});
  a.now_ns -= 1;
  CHECK(a.link() == Link::connecting);
  a.happen({E::attempt_closed});
  CHECK(a.link() == Link::refused);
}

TEST_CASE("who accepts and does not speak ZeroMQ is mute, also when it closes again and again") {
  Attempts a;
  a.happen({E::attempt, E::accepted});
  CHECK(a.link() == Link::mute);
  for (int i = 0; i < 3; ++i) {
    a.happen({E::handshake_failed, E::disconnected, E::retry});
    CHECK(a.link() == Link::mute);
    a.happen({E::attempt, E::accepted});
  }
  CHECK(a.link() == Link::mute);
  CHECK(a.tracker.handshakes() == 0);
}

TEST_CASE("a connection is up with the handshake, and lost until an attempt says why") {
  Attempts a;
  a.happen({E::attempt, E::accepted, E::handshake});
  CHECK(a.link() == Link::up);
  CHECK(a.tracker.handshakes() == 1);
  a.now_ns += 100 * ns_per_s;
  CHECK(a.link() == Link::up);
  a.happen({E::disconnected});
  CHECK(a.link() == Link::connecting);
  a.happen({E::retry});
  CHECK(a.link() == Link::connecting);
  a.happen({E::attempt, E::attempt_closed, E::retry});
  CHECK(a.link() == Link::refused);
  a.happen({E::attempt, E::accepted, E::handshake});
  CHECK(a.link() == Link::up);
  // A reconnect between two looks shows only here.
  a.happen({E::disconnected, E::retry, E::attempt, E::accepted, E::handshake});
  CHECK(a.tracker.handshakes() == 3);
}

}  // namespace
}  // namespace ccld::probe
