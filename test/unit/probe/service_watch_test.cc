#include "probe/agent/service_watch.h"

#include <vector>

#include <catch2/catch.hpp>

namespace ccld::probe {
namespace {

using abi::ServiceState;
using News = ServiceWatch::News;

struct Said {
  uint64_t at_s;
  News news;
  ServiceState state;
};

// One look a second; a question is answered at the next look while the service answers.
struct Scene {
  void run(uint64_t seconds) {
    for (uint64_t i = 0; i < seconds; ++i) {
      now_ns += ns_per_s;
      if (asked && answers && connection.link == Link::up) watch.answered();
      asked = asked && !answers;
      const News news = watch.look(connection, now_ns);
      if (news != News::none) said.push_back({now_ns / ns_per_s - start_s, news, watch.state()});
      if (sends && watch.wants_answer(now_ns)) {
        watch.offered();
        if (!takes) continue;
        watch.asked(now_ns);
        asked = true;
        ++questions;
      }
    }
  }
  void link(Link next) {
    if (next == Link::up) ++connection.handshakes, asked = false;
    connection.link = next;
  }

  static constexpr uint64_t start_s = 1000;
  ServiceWatch watch;
  uint64_t now_ns = start_s * ns_per_s;
  Transport::Connection connection{Link::connecting, 0};
  bool answers = true, asked = false;
  bool sends = true, takes = true;  // a batch with every look; the transport has room for it
  int questions = 0;
  std::vector<Said> said;
};

TEST_CASE("a service that answers is reached, and asked every five seconds") {
  Scene s;
  s.link(Link::up);
  s.run(1);
  CHECK(s.watch.state() == ServiceState::connected);
  s.run(1);
  CHECK(s.watch.state() == ServiceState::reached);
  s.run(98);
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].news == News::reached);
  CHECK(s.questions == 20);
}

TEST_CASE("each way not to be there is one warning that says which, after five seconds") {
  const std::pair<Link, ServiceState> cases[] = {
      {Link::unresolved, ServiceState::unresolved}, {Link::refused, ServiceState::refused},
      {Link::unanswered, ServiceState::unanswered}, {Link::mute, ServiceState::mute},
      {Link::rejected, ServiceState::rejected},     {Link::one_sided, ServiceState::one_sided},
      {Link::other_key, ServiceState::other_key}};
  for (const auto& [link, state] : cases) {
    Scene s;
    s.link(link);
    s.run(5);
    CHECK(s.said.empty());
    s.run(95);
    REQUIRE(s.said.size() == 1);
    CHECK(s.said[0].news == News::trouble);
    CHECK(s.said[0].state == state);
    CHECK(s.said[0].at_s == 6);
    CHECK(s.watch.since_ns() == (Scene::start_s + 1) * ns_per_s);
    CHECK(s.questions == 0);  // nobody would answer
    s.link(Link::up);
    s.run(10);
    REQUIRE(s.said.size() == 2);
    CHECK(s.said[1].news == News::back);
  }
}

TEST_CASE("keys that do not fit are one warning, whichever end sees it at which attempt") {
  for (const bool sure_first : {true, false}) {
    Scene s;
    s.link(sure_first ? Link::one_sided : Link::other_key);
    s.run(20);
    s.link(sure_first ? Link::other_key : Link::one_sided);
    s.run(200);
    CHECK(s.said.size() == 1);
    CHECK(s.watch.state() == (sure_first ? ServiceState::other_key : ServiceState::one_sided));
    s.link(Link::rejected);
    s.run(200);
    REQUIRE(s.said.size() == 2);
    CHECK(s.said[1].state == ServiceState::rejected);
  }
}

TEST_CASE("who never answers is deaf, who does not answer any more is stalled") {
  Scene s;
  bool ever = false;
  SECTION("never") { s.answers = false; }
  SECTION("not any more") {
    s.link(Link::up);
    s.run(20);
    s.said.clear();
    s.answers = false;
    ever = true;
  }
  if (!ever) s.link(Link::up);
  const uint64_t begin_s = s.now_ns / ns_per_s - Scene::start_s;
  s.run(100);
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].state == (ever ? ServiceState::stalled : ServiceState::deaf));
  CHECK(s.said[0].at_s >= begin_s + 10);
  CHECK(s.said[0].at_s <= begin_s + 17);
  s.answers = true;
  s.run(5);
  REQUIRE(s.said.size() == 2);
  CHECK(s.said[1].news == News::back);
}

TEST_CASE("an unanswered question is repeated seldom") {
  Scene s;
  s.answers = false;
  s.link(Link::up);
  s.run(300);
  CHECK(s.questions == 10);
}

TEST_CASE("a restart within seconds is no news") {
  Scene s;
  s.link(Link::up);
  s.run(10);
  for (int i = 0; i < 5; ++i) {
    s.link(Link::refused);
    s.run(4);
    s.link(Link::up);
    s.run(10);
    CHECK(s.watch.state() == ServiceState::reached);
  }
  CHECK(s.said.size() == 1);  // that it is there
}

TEST_CASE("another trouble than the one that was said is said when it lasts") {
  Scene s;
  s.answers = false;
  s.link(Link::refused);
  s.run(20);
  s.link(Link::connecting);
  s.run(2);
  s.link(Link::up);
  s.run(60);
  REQUIRE(s.said.size() == 2);
  CHECK(s.said[0].state == ServiceState::refused);
  CHECK(s.said[1].news == News::trouble);
  CHECK(s.said[1].state == ServiceState::deaf);
}

TEST_CASE("connections that are made and lost without end are said, too") {
  Scene s;
  s.answers = false;
  for (int i = 0; i < 20; ++i) {
    s.link(Link::up);
    s.run(3);
    s.link(Link::connecting);
    s.run(1);
  }
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].news == News::trouble);
  CHECK(s.watch.said() == ServiceState::connecting);
}

TEST_CASE("time in which the process itself did not run is not held against the service") {
  Scene s;
  s.link(Link::up);
  s.run(10);
  s.said.clear();
  s.answers = false;
  s.run(6);
  s.now_ns += 3600 * ns_per_s;
  s.run(1);
  s.answers = true;
  s.run(5);
  CHECK(s.said.empty());
}

TEST_CASE("a process that was stopped is patient when it runs again, and knows the true begin") {
  Scene s;
  s.link(Link::refused);
  SECTION("with one trouble") {
    s.run(2);
    s.now_ns += 3600 * ns_per_s;
    s.run(1);
    CHECK(s.said.empty());
    CHECK(s.watch.since_ns() == (Scene::start_s + 1) * ns_per_s);
    s.run(5);
    CHECK(s.said.size() == 1);
  }
  SECTION("with several") {
    s.run(2);
    s.now_ns += 3600 * ns_per_s;
    s.link(Link::unanswered);
    s.run(4);
    CHECK(s.said.empty());
  }
}

TEST_CASE("a look with an older time than the last has no news") {
  Scene s;
  SECTION("nobody there") { s.link(Link::refused); }
  SECTION("nobody answers") {
    s.answers = false;
    s.link(Link::up);
  }
  s.run(2);
  const ServiceState before = s.watch.state();
  for (int i = 0; i < 20; ++i) CHECK(s.watch.look(s.connection, s.now_ns - static_cast<uint64_t>(i) % 2) == News::none);
  CHECK(s.watch.state() == before);
  CHECK(s.watch.look({Link::mute, s.connection.handshakes}, s.now_ns - 1) == News::none);
  CHECK(s.watch.since_ns() == s.now_ns);
}

TEST_CASE("a connection on which nothing was sent is no trouble") {
  Scene s;
  s.sends = false;
  SECTION("from the start") {}
  SECTION("after a short trouble") {
    s.link(Link::refused);
    s.run(4);
  }
  s.link(Link::up);
  s.run(3600);
  CHECK(s.said.empty());
  CHECK(s.watch.state() == ServiceState::connected);
  for (int restart = 0; restart < 10; ++restart) {
    s.link(Link::refused);
    s.run(4);
    s.link(Link::up);
    s.run(100);
  }
  CHECK(s.said.empty());
  s.sends = true;
  s.run(2);
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].news == News::reached);
}

TEST_CASE("a connection that takes no batches is trouble, 20 s after the first was offered") {
  Scene s;
  s.sends = s.takes = false;
  s.link(Link::up);
  s.run(100);
  s.sends = true;
  s.run(20);
  CHECK(s.said.empty());
  s.run(5);
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].news == News::trouble);
  CHECK(s.said[0].at_s == 121);
  CHECK(s.watch.said() == ServiceState::connected);
  s.takes = true;
  s.run(3);
  REQUIRE(s.said.size() == 2);
  CHECK(s.said[1].news == News::back);
  CHECK(s.watch.said() == ServiceState::none);
}

TEST_CASE("a service that comes and goes is said less and less often, and at once again after a quiet hour") {
  Scene s;
  for (int i = 0; i < 6 * 60; ++i) {  // six hours
    s.link(Link::refused);
    s.run(30);
    s.link(Link::up);
    s.run(30);
  }
  uint64_t trouble = 0, back = 0, before_s = 0;
  for (const Said& said : s.said) {
    back += said.news == News::back;
    if (said.news != News::trouble) continue;
    if (++trouble > 8) CHECK(said.at_s - before_s >= 3600);
    before_s = said.at_s;
  }
  CHECK(trouble >= 8);
  CHECK(trouble <= 12);
  CHECK(back == trouble);
  s.run(3700);
  s.said.clear();
  s.link(Link::refused);
  s.run(30);
  CHECK(s.said.size() == 1);
  s.link(Link::up);
  s.run(60);
  s.link(Link::refused);
  s.run(30);
  CHECK(s.said.size() == 3);
}

// ---- several endpoints of a service --------------------------------------------------------------------------------

void use_several(Scene& s, size_t count) { s.connection.endpoints = count; }
void move(Scene& s) {
  ++s.connection.moves;
  s.connection.endpoint = (s.connection.endpoint + 1) % s.connection.endpoints;
  s.link(Link::connecting);
  s.asked = false;
}

TEST_CASE("of several endpoints an answer is asked for every three seconds") {
  Scene s;
  use_several(s, 3);
  s.link(Link::up);
  s.run(99);
  CHECK(s.questions == 33);
  CHECK_FALSE(s.watch.unanswered());
}

TEST_CASE("of several endpoints one that does not acknowledge is to be left within ten seconds") {
  for (uint64_t stops_after_s = 10; stops_after_s < 16; ++stops_after_s) {
    for (const bool takes : {true, false}) {
      Scene s;
      use_several(s, 2);
      s.link(Link::up);
      if (takes) s.run(stops_after_s);
      s.answers = false;
      s.takes = takes;
      for (int i = 0; i < 10 && !s.watch.unanswered(); ++i) s.run(1);
      CHECK(s.watch.unanswered());
      move(s);
      s.run(1);
      CHECK_FALSE(s.watch.unanswered());
      CHECK(s.watch.state() == ServiceState::connecting);
      s.link(Link::up);
      s.answers = s.takes = true;
      s.run(3);
      CHECK(s.watch.state() == ServiceState::reached);
      REQUIRE(s.said.size() == (takes ? 2 : 1));
      CHECK(s.said.back().news == (takes ? News::moved : News::reached));
    }
  }
}

TEST_CASE(
    "of several endpoints none is a warning before all had their time, and then there is one until one is reached") {
  Scene s;
  use_several(s, 3);
  s.link(Link::up);
  s.run(10);
  s.said.clear();
  const uint64_t begin_s = s.now_ns / ns_per_s - Scene::start_s;
  for (const Link link : {Link::refused, Link::unanswered, Link::mute, Link::refused, Link::rejected, Link::mute}) {
    s.link(link);
    s.run(2);
    if (s.now_ns / ns_per_s - Scene::start_s < begin_s + 11) CHECK(s.said.empty());
    move(s);
  }
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].news == News::trouble);
  CHECK(s.said[0].at_s == begin_s + 12);  // 5 s, and 2 s for each of them
  s.link(Link::up);
  s.run(5);
  REQUIRE(s.said.size() == 2);
  CHECK(s.said[1].news == News::back);
}

TEST_CASE("another endpoint that is reached is news, the same one is not") {
  Scene s;
  use_several(s, 2);
  s.link(Link::up);
  s.run(10);
  s.said.clear();
  s.link(Link::refused);
  s.run(2);
  move(s);
  s.link(Link::refused);
  s.run(2);
  move(s);
  s.link(Link::up);
  s.run(5);
  CHECK(s.said.empty());
  s.link(Link::refused);
  s.run(2);
  move(s);
  s.link(Link::up);
  s.run(5);
  REQUIRE(s.said.size() == 1);
  CHECK(s.said[0].news == News::moved);
}

TEST_CASE("the only endpoint is never to be left") {
  Scene s;
  s.answers = false;
  s.link(Link::up);
  s.run(100);
  CHECK(s.watch.state() == ServiceState::deaf);
  CHECK_FALSE(s.watch.unanswered());
}

TEST_CASE("a process that ends early says what is certain") {
  for (const Link link : {Link::refused, Link::connecting}) {
    ServiceWatch watch;
    CHECK(watch.look({link, 0}, 5 * ns_per_s) == News::none);
    CHECK(watch.look({link, 0}, 7 * ns_per_s, true) == News::trouble);
  }
  ServiceWatch watch;
  CHECK(watch.look({Link::up, 1}, 5 * ns_per_s) == News::none);
  CHECK(watch.look({Link::up, 1}, 7 * ns_per_s, true) == News::none);
}

}  // namespace
}  // namespace ccld::probe
