#include "probe/transport/endpoints.h"

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "probe/agent/clock.h"

namespace ccld::probe {
namespace {

using E = LinkEvent;
using Step = Endpoints::Step;

struct Scene {
  explicit Scene(size_t count = 3, uint64_t choice = 0, bool keys = false) : endpoints(names(count), choice, keys) {
    CHECK(endpoints.next(now_ns) == Step::none);
  }
  static std::vector<std::string> names(size_t count) {
    std::vector<std::string> all;
    for (size_t i = 0; i < count; ++i) all.push_back("tcp://" + std::string(1, static_cast<char>('a' + i)) + ":1");
    return all;
  }
  void happen(std::initializer_list<LinkEvent> events) {
    for (const LinkEvent e : events) endpoints.on(e, now_ns);
  }
  void connects() { happen({E::attempt, E::accepted, E::handshake}); }
  void is_refused() { happen({E::attempt, E::attempt_closed, E::retry}); }
  // Looks five times a second. Returns after how many tenths of a second the one in use is left, 0 if it is not.
  uint64_t left_after(uint64_t tenths_max) {
    for (uint64_t i = 2; i <= tenths_max; i += 2) {
      now_ns += 200 * ns_per_ms;
      if (endpoints.next(now_ns) != Step::leave) continue;
      again = endpoints.next(now_ns);
      return i;
    }
    return 0;
  }
  const std::string& used() const { return endpoints.in_use(); }

  uint64_t now_ns = 1000 * ns_per_s;
  Endpoints endpoints;
  Step again = Step::none;  // what followed the last `leave`
};

TEST_CASE("processes are spread evenly, and each always begins with the same") {
  std::map<uint64_t, int> of_three;
  const int hosts = 300, processes = 100;
  for (int host = 0; host < hosts; ++host)
    for (uint32_t pid = 0; pid < processes; ++pid)
      ++of_three[endpoint_choice("node" + std::to_string(host), 4000 + pid, 4026531836) % 3];
  for (uint64_t i = 0; i < 3; ++i) CHECK(of_three[i] == Approx(10000).margin(400));
  CHECK(endpoint_choice("node1", 7, 1) == endpoint_choice("node1", 7, 1));
  // In containers ids are equal, on a host names are.
  std::map<uint64_t, int> of_two;
  for (int pod = 0; pod < 1000; ++pod) ++of_two[endpoint_choice("pod-" + std::to_string(pod), 1, 4026532000) % 2];
  for (uint32_t container = 0; container < 1000; ++container) ++of_two[endpoint_choice("node0", 1, container) % 2];
  CHECK(of_two[0] == Approx(1000).margin(150));
}

TEST_CASE("the choice says which one is first") {
  for (const auto& [choice, first] : std::map<uint64_t, std::string>{
           {0, "tcp://a:1"}, {1, "tcp://b:1"}, {2, "tcp://c:1"}, {3, "tcp://a:1"}, {UINT64_MAX, "tcp://a:1"}})
    CHECK(Scene(3, choice).used() == first);
}

TEST_CASE("where nothing connects for 2 s the next one is used, round and round") {
  Scene s(3, 1);
  for (const char* next : {"tcp://c:1", "tcp://a:1", "tcp://b:1", "tcp://c:1"}) {
    s.is_refused();
    CHECK(s.left_after(100) == 20);
    CHECK(s.again == Step::connect);
    CHECK(s.used() == next);
    if (s.endpoints.moves() < 3) CHECK(s.endpoints.link(s.now_ns) == Link::connecting);  // of this one nothing is known
  }
  CHECK(s.endpoints.moves() == 4);
  CHECK(s.endpoints.left() == 4);
}

TEST_CASE("a connection is kept as long as it holds, and a restart is waited for") {
  Scene s;
  s.connects();
  CHECK(s.left_after(36000) == 0);
  for (int restart = 0; restart < 10; ++restart) {
    s.happen({E::disconnected, E::retry});
    s.is_refused();
    CHECK(s.left_after(14) == 0);
    s.connects();
    s.endpoints.heard();
    CHECK(s.left_after(100) == 0);
  }
  CHECK(s.endpoints.handshakes() == 11);
  s.happen({E::disconnected, E::retry});
  CHECK(s.left_after(100) == 20);
  CHECK(s.used() == "tcp://b:1");
  s.connects();
  CHECK(s.endpoints.handshakes() == 12);  // never fewer than before
}

TEST_CASE("connections that are made and lost without a word are left") {
  Scene s;
  uint64_t left = 0;
  for (int i = 0; i < 10 && left == 0; ++i) {
    s.connects();
    CHECK(s.left_after(4) == 0);
    s.happen({E::disconnected, E::retry});
    left = s.left_after(6);
  }
  CHECK(left != 0);
}

TEST_CASE("a service that does not acknowledge is left when that is said") {
  Scene s;
  s.connects();
  CHECK(s.left_after(100) == 0);
  s.endpoints.unanswered();
  CHECK(s.left_after(100) == 2);
  CHECK(s.used() == "tcp://b:1");
  s.connects();
  CHECK(s.left_after(100) == 0);  // it was said of the other
}

TEST_CASE("an answer is an answer, however late") {
  Scene s;
  s.connects();
  s.endpoints.unanswered();
  s.endpoints.heard();
  CHECK(s.left_after(100) == 0);
}

TEST_CASE("who bars us is left at once, and passed over until its time has come") {
  Scene s(2, 0, true);
  s.happen({E::attempt, E::accepted, E::key_rejected, E::disconnected});
  CHECK(s.endpoints.next(s.now_ns) == Step::leave);
  CHECK(s.endpoints.next(s.now_ns) == Step::connect);
  CHECK(s.used() == "tcp://b:1");
  CHECK(s.endpoints.next(s.now_ns) == Step::none);
  s.is_refused();
  CHECK(s.left_after(100) == 20);  // a is due again after 2 s
  CHECK(s.used() == "tcp://a:1");
  CHECK(s.endpoints.link(s.now_ns) == Link::rejected);  // until something else is known
  s.happen({E::attempt, E::accepted, E::key_rejected, E::disconnected});
  CHECK(s.endpoints.next(s.now_ns) == Step::leave);
  CHECK(s.endpoints.next(s.now_ns) == Step::connect);
  CHECK(s.used() == "tcp://b:1");
  s.is_refused();
  CHECK(s.left_after(100) == 40);  // and now after 4 s
}

TEST_CASE("where all bar us nothing is connected until the first of them is due") {
  Scene s(2, 0, true);
  for (int i = 0; i < 2; ++i) {
    s.happen({E::attempt, E::accepted, E::keys_one_sided, E::disconnected});
    CHECK(s.endpoints.next(s.now_ns) == Step::leave);
    CHECK(s.endpoints.next(s.now_ns) == (i == 0 ? Step::connect : Step::none));
    if (i == 0) s.now_ns += ns_per_s;
  }
  CHECK(s.endpoints.link(s.now_ns) == Link::one_sided);
  s.now_ns += ns_per_s - 1;
  CHECK(s.endpoints.next(s.now_ns) == Step::none);
  s.now_ns += 1;
  CHECK(s.endpoints.next(s.now_ns) == Step::connect);
  CHECK(s.used() == "tcp://a:1");
}

TEST_CASE("where somebody may be they are waited for longer with each round, and an answer ends that") {
  Scene s(2);
  const auto mute_is_left_after = [&s] {
    s.happen({E::attempt, E::accepted});
    return s.left_after(1000);
  };
  for (const uint64_t tenths : {20, 20, 40, 40, 80, 80, 160, 160, 160}) CHECK(mute_is_left_after() == tenths);
  s.is_refused();  // nobody is there, so nobody has too much to do
  CHECK(s.left_after(1000) == 20);
  s.connects();
  s.endpoints.unanswered();
  CHECK(s.left_after(1000) == 160);
  s.connects();
  s.endpoints.heard();
  s.happen({E::disconnected, E::retry});
  CHECK(mute_is_left_after() == 20);
}

TEST_CASE("time in which nobody looked is not held against the service") {
  Scene s;
  s.is_refused();
  s.now_ns += 3600 * ns_per_s;
  CHECK(s.endpoints.next(s.now_ns) == Step::none);
  s.connects();
  CHECK(s.left_after(100) == 0);
}

TEST_CASE("an attempt that cannot even begin goes on with the next one, and waits where there is none") {
  Scene s(2);
  s.is_refused();
  CHECK(s.left_after(100) == 20);
  CHECK(s.used() == "tcp://b:1");
  s.endpoints.not_connected(s.now_ns);
  CHECK(s.endpoints.next(s.now_ns) == Step::connect);
  CHECK(s.used() == "tcp://a:1");
  s.endpoints.not_connected(s.now_ns);
  CHECK(s.endpoints.next(s.now_ns) == Step::none);
  s.now_ns += barred_wait_ns_min;
  CHECK(s.endpoints.next(s.now_ns) == Step::connect);
  CHECK(s.used() == "tcp://b:1");
}

TEST_CASE("the only endpoint is never left for want of a connection or an answer") {
  Scene s(1);
  s.is_refused();
  s.endpoints.unanswered();
  CHECK(s.left_after(36000) == 0);
  s.connects();
  s.endpoints.unanswered();
  CHECK(s.left_after(36000) == 0);
}

TEST_CASE("the only endpoint is left while it bars us, and connected to again") {
  Scene s(1, 7, true);
  for (const uint64_t wait_s : {2, 4, 8, 16, 32, 60, 60}) {
    s.happen({E::attempt, E::accepted, E::key_rejected, E::disconnected});
    CHECK(s.endpoints.next(s.now_ns) == Step::leave);
    CHECK(s.endpoints.next(s.now_ns) == Step::none);
    CHECK(s.endpoints.link(s.now_ns) == Link::rejected);
    s.now_ns += wait_s * ns_per_s - 1;
    CHECK(s.endpoints.next(s.now_ns) == Step::none);
    s.now_ns += 1;
    CHECK(s.endpoints.next(s.now_ns) == Step::connect);
    CHECK(s.endpoints.next(s.now_ns) == Step::none);
  }
  CHECK(s.endpoints.moves() == 0);
  CHECK(s.endpoints.left() == 7);
}

}  // namespace
}  // namespace ccld::probe
