#include "probe/transport/link.h"

#include <initializer_list>

#include <catch2/catch.hpp>

#include "probe/agent/clock.h"

namespace ccld::probe {
namespace {

using E = LinkEvent;

struct Attempts {
  Attempts() = default;
  explicit Attempts(const LinkTracker& t) : tracker(t) {}
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

TEST_CASE("who does not accept our key stays so until there is a connection, or something else is known") {
  Attempts a{LinkTracker(true)};
  a.happen({E::attempt, E::accepted, E::key_rejected, E::disconnected});
  CHECK(a.link() == Link::rejected);
  a.now_ns += 60 * ns_per_s;
  a.happen({E::attempt, E::accepted});
  CHECK(a.link() == Link::rejected);
  SECTION("accepted") {
    a.happen({E::handshake});
    CHECK(a.link() == Link::up);
  }
  SECTION("gone") {
    a.happen({E::handshake_failed, E::disconnected, E::retry, E::attempt, E::attempt_closed});
    CHECK(a.link() == Link::refused);
  }
  SECTION("accepted and removed again") {
    a.happen({E::handshake, E::disconnected, E::retry, E::attempt, E::accepted, E::key_rejected});
    CHECK(a.link() == Link::rejected);
    CHECK(a.tracker.barrings() == 2);
  }
}

TEST_CASE("that one side demands keys is known although the other side mostly hangs up first") {
  for (const bool keys : {false, true}) {
    Attempts a{LinkTracker(keys)};
    a.happen({E::attempt, E::accepted, E::handshake_failed, E::disconnected, E::retry});
    CHECK(a.link() == Link::mute);
    a.happen({E::attempt, E::accepted, E::keys_one_sided, E::disconnected});
    CHECK(a.link() == Link::one_sided);
    a.happen({E::attempt, E::accepted, E::handshake_failed, E::disconnected, E::retry});
    CHECK(a.link() == Link::one_sided);
    CHECK(a.tracker.barrings() == 1);
  }
}

TEST_CASE("with keys, who hangs up at once, again and again, has another key than we were told, or none") {
  Attempts a{LinkTracker(true)};
  for (unsigned i = 1; i < broken_off_min; ++i) {
    a.happen({E::attempt, E::accepted, E::handshake_failed, E::disconnected, E::retry});
    CHECK(a.link() == Link::mute);  // it may have been ending
    CHECK(a.tracker.barrings() == 0);
  }
  a.happen({E::attempt, E::accepted, E::handshake_failed, E::disconnected, E::retry});
  CHECK(a.link() == Link::other_key);
  CHECK(a.tracker.barrings() == 1);
  a.happen({E::attempt, E::accepted, E::handshake});
  CHECK(a.link() == Link::up);
}

TEST_CASE("with keys, who is silent until the time for the handshake is over is stopped, not another") {
  Attempts a{LinkTracker(true)};
  for (int i = 0; i < 3; ++i) {
    a.happen({E::attempt, E::accepted});
    a.now_ns += 30 * ns_per_s;
    a.happen({E::handshake_failed, E::disconnected, E::retry});
    CHECK(a.link() == Link::mute);
  }
}

TEST_CASE("with keys, who breaks the protocol has not the right one; without, it is no ZeroMQ") {
  Attempts with{LinkTracker(true)}, without{LinkTracker(false)};
  with.happen({E::attempt, E::accepted, E::protocol_failed});
  without.happen({E::attempt, E::accepted, E::protocol_failed});
  CHECK(with.link() == Link::other_key);
  CHECK(without.link() == Link::mute);
}

TEST_CASE("an endpoint that bars us is left, and tried again less and less often, at least once a minute") {
  Attempts a{LinkTracker(true)};
  Retry retry;
  const auto next = [&] { return retry.next(a.tracker, a.now_ns); };
  CHECK(next() == Retry::Step::none);
  for (const uint64_t wait_s : {2, 4, 8, 16, 32, 60, 60}) {
    a.happen({E::attempt, E::accepted, E::key_rejected, E::disconnected});
    CHECK(next() == Retry::Step::leave);
    CHECK(retry.away());
    a.now_ns += wait_s * ns_per_s - 1;
    CHECK(next() == Retry::Step::none);
    a.now_ns += 1;
    CHECK(next() == Retry::Step::connect);
    CHECK(next() == Retry::Step::none);  // the attempt has not ended
    CHECK_FALSE(retry.away());
  }
  a.happen({E::attempt, E::accepted, E::handshake});
  CHECK(next() == Retry::Step::none);
  a.happen({E::disconnected, E::retry, E::attempt, E::accepted, E::key_rejected});
  CHECK(next() == Retry::Step::leave);
  a.now_ns += 2 * ns_per_s;
  CHECK(next() == Retry::Step::connect);
}

TEST_CASE("an endpoint that libzmq has given up is left, and tried again soon, each time") {
  Attempts a;
  Retry retry;
  const auto next = [&] { return retry.next(a.tracker, a.now_ns); };
  for (const auto& lost :
       {std::initializer_list<LinkEvent>{E::attempt, E::accepted, E::protocol_failed, E::disconnected},
        {E::attempt, E::accepted, E::handshake, E::disconnected},
        {E::attempt, E::accepted, E::protocol_failed, E::disconnected}}) {
    a.happen(lost);
    a.now_ns += given_up_ns - 1;
    CHECK(next() == Retry::Step::none);
    a.now_ns += 1;
    CHECK(next() == Retry::Step::leave);
    CHECK(retry.away());
    a.now_ns += barred_wait_ns_min;
    CHECK(next() == Retry::Step::connect);
    CHECK(next() == Retry::Step::none);
    a.now_ns += 2 * given_up_ns;
    CHECK(next() == Retry::Step::none);  // nothing has come of it yet
  }
}

TEST_CASE("what libzmq tries again by itself is left to it, however long that takes") {
  Attempts a;
  Retry retry;
  for (const auto& lost :
       {std::initializer_list<LinkEvent>{E::attempt, E::accepted, E::handshake, E::disconnected, E::retry},
        {E::attempt},
        {E::attempt_closed, E::retry}}) {
    a.happen(lost);
    a.now_ns += 20 * ns_per_s;
    CHECK(retry.next(a.tracker, a.now_ns) == Retry::Step::none);
  }
}

TEST_CASE("what this end has left is begun anew, and only what bars us is remembered") {
  Attempts a{LinkTracker(true)};
  a.happen({E::attempt, E::accepted, E::handshake});
  a.tracker.left();
  CHECK(a.link() == Link::connecting);
  a.happen({E::attempt});
  a.tracker.left();
  a.now_ns += 20 * ns_per_s;
  CHECK(a.link() == Link::connecting);
  a.happen({E::attempt, E::accepted, E::handshake, E::disconnected});
  a.tracker.left();
  a.now_ns += 20 * ns_per_s;
  CHECK_FALSE(a.tracker.given_up(a.now_ns));
  a.happen({E::attempt, E::accepted, E::key_rejected});
  a.tracker.left();
  CHECK(a.link() == Link::rejected);
  a.happen({E::attempt, E::accepted, E::handshake});
  CHECK(a.link() == Link::up);
  CHECK(a.tracker.handshakes() == 3);
}

TEST_CASE("an attempt that could not begin is due again after 2 s") {
  Retry retry;
  CHECK(retry.due(1));
  retry.postpone(ns_per_s);
  CHECK(retry.away());
  CHECK_FALSE(retry.due(3 * ns_per_s - 1));
  CHECK(retry.due(3 * ns_per_s));
  CHECK(retry.next(LinkTracker(), 3 * ns_per_s) == Retry::Step::connect);
  CHECK(retry.due(0));
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
