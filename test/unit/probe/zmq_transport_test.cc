#include "probe/transport/zmq_transport.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <catch2/catch.hpp>

#include "probe/agent/clock.h"
#include "probe/counters/log.h"
#include "probe/transport/endpoints.h"
#include "test/support/net/listener.h"

namespace ccld::probe {
namespace {

std::vector<std::string> warnings;
void remember(LogLevel, const char* line) { warnings.push_back(line); }

// The service's end.
class Receiver {
 public:
  // `secret`: of the service; empty: without keys.
  explicit Receiver(const std::string& at = "tcp://127.0.0.1:*", const std::string& secret = "") {
    if (!secret.empty()) {
      const int yes = 1;
      REQUIRE(zmq_setsockopt(socket_, ZMQ_CURVE_SERVER, &yes, sizeof yes) == 0);
      REQUIRE(zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, secret.c_str(), secret.size() + 1) == 0);
      admission_ = zmq_socket(context_, ZMQ_REP);
      REQUIRE(zmq_bind(admission_, "inproc://zeromq.zap.01") == 0);
    }
    zmq_setsockopt(socket_, ZMQ_RCVTIMEO, &timeout_ms_, sizeof timeout_ms_);
    REQUIRE(zmq_bind(socket_, at.c_str()) == 0);
    char text[128];
    size_t size = sizeof text;
    REQUIRE(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text, &size) == 0);
    endpoint = text;
  }
  ~Receiver() {
    zmq_close(socket_);
    if (admission_ != nullptr) zmq_close(admission_);
    zmq_ctx_term(context_);
  }
  // Answers the next request of libzmq whether a key is accepted. False: none came.
  bool admit(bool accepted, int timeout_ms = 10000) {
    zmq_setsockopt(admission_, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    std::vector<std::string> request;
    int more = 1;
    for (size_t size = sizeof more; more != 0; zmq_getsockopt(admission_, ZMQ_RCVMORE, &more, &size)) {
      char buffer[256];
      const int n = zmq_recv(admission_, buffer, sizeof buffer, 0);
      if (n < 0) return false;
      request.emplace_back(buffer, static_cast<size_t>(n));
    }
    const std::string answer[] = {"1.0", request.at(1), accepted ? "200" : "400", "", "", ""};
    for (size_t i = 0; i < 6; ++i) zmq_send(admission_, answer[i].data(), answer[i].size(), i < 5 ? ZMQ_SNDMORE : 0);
    return true;
  }
  std::string receive() {
    sender = part();
    return part();
  }
  void answer(const std::string& text) {
    zmq_send(socket_, sender.data(), sender.size(), ZMQ_SNDMORE);
    zmq_send(socket_, text.data(), text.size(), 0);
  }
  std::string sender;
  std::string endpoint;

 private:
  std::string part() {
    char buffer[256];
    const int n = zmq_recv(socket_, buffer, sizeof buffer, 0);
    return n < 0 ? "nothing" : std::string(buffer, static_cast<size_t>(n));
  }

  void* context_ = zmq_ctx_new();
  void* socket_ = zmq_socket(context_, ZMQ_ROUTER);
  void* admission_ = nullptr;
  int timeout_ms_ = 10000;
};

ZmqOptions options(const std::string& endpoint) {
  ZmqOptions o;
  o.endpoint = endpoint;
  o.queue_max = 8;
  o.linger_ms = 200;
  return o;
}

struct Pair {
  Pair() { REQUIRE(zmq_curve_keypair(open, secret) == 0); }
  char open[41] = "", secret[41] = "";
};

ZmqOptions options(const std::string& endpoint, const Pair& service, const Pair& own) {
  ZmqOptions o = options(endpoint);
  o.keys = {service.open, own.secret};
  return o;
}

uint64_t now_ns() { return SystemClock().now().monotonic_ns; }

bool becomes(Transport& transport, Link link, Link or_link) {
  Link now = transport.connection(now_ns()).link;
  for (int i = 0; i < 10000 && now != link && now != or_link; ++i) {
    usleep(1000);
    now = transport.connection(now_ns()).link;
  }
  return now == link || now == or_link;
}
bool becomes(Transport& transport, Link link) { return becomes(transport, link, link); }

const uint8_t* bytes(const char* text) { return reinterpret_cast<const uint8_t*>(text); }

TEST_CASE("what is sent arrives, also what was sent right before the end") {
  Receiver receiver;
  auto transport = open_zmq_transport(options(receiver.endpoint));
  REQUIRE(transport != nullptr);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(receiver.receive() == "one");
  CHECK(transport->send(bytes("two"), 3) == SendResult::sent);
  transport.reset();
  CHECK(receiver.receive() == "two");
}

TEST_CASE("what the service says is received without blocking") {
  Receiver receiver;
  auto transport = open_zmq_transport(options(receiver.endpoint));
  REQUIRE(transport != nullptr);
  std::vector<uint8_t> received;
  CHECK_FALSE(transport->receive(&received));
  transport->send(bytes("one"), 3);
  REQUIRE(receiver.receive() == "one");
  receiver.answer("do this");
  bool came = false;  // it travels through threads of libzmq that announce nothing to us
  for (int i = 0; i < 10000 && !came; ++i) {
    came = transport->receive(&received);
    if (!came) usleep(1000);
  }
  REQUIRE(came);
  CHECK(std::string(received.begin(), received.end()) == "do this");
}

TEST_CASE("a transport knows whether the other end is there, comes and goes, and what waited arrives") {
  auto receiver = std::make_unique<Receiver>();
  const std::string endpoint = receiver->endpoint;
  receiver.reset();
  auto transport = open_zmq_transport(options(endpoint));
  REQUIRE(transport != nullptr);
  CHECK(becomes(*transport, Link::refused));
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  receiver = std::make_unique<Receiver>(endpoint);
  CHECK(becomes(*transport, Link::up));
  CHECK(transport->connection(now_ns()).handshakes == 1);
  CHECK(receiver->receive() == "one");
  receiver.reset();
  CHECK(becomes(*transport, Link::refused));
  CHECK(transport->send(bytes("two"), 3) == SendResult::sent);
  receiver = std::make_unique<Receiver>(endpoint);
  CHECK(becomes(*transport, Link::up));
  CHECK(transport->connection(now_ns()).handshakes == 2);
  CHECK(receiver->receive() == "two");
}

TEST_CASE("a name without an address, and a socket file that is not there, are told apart from a silent service") {
  auto nowhere = open_zmq_transport(options("tcp://no-such-host.invalid:5566"));
  REQUIRE(nowhere != nullptr);
  CHECK(becomes(*nowhere, Link::unresolved));
  auto no_file = open_zmq_transport(options("ipc:///tmp/ccld-no-such-socket"));
  REQUIRE(no_file != nullptr);
  CHECK(becomes(*no_file, Link::refused));
}

TEST_CASE("who accepts connections and does not speak ZeroMQ is not there") {
  const test::Listener listener;
  auto transport = open_zmq_transport(options(listener.endpoint()));
  REQUIRE(transport != nullptr);
  const int accepted = listener.take();
  REQUIRE(accepted >= 0);
  char greeting[10];
  REQUIRE(recv(accepted, greeting, sizeof greeting, MSG_WAITALL) == sizeof greeting);  // so it is connected
  CHECK(becomes(*transport, Link::mute));
  close(accepted);
}

TEST_CASE("after somebody who spoke no proper ZeroMQ the service is found, although libzmq tries no more") {
  auto impostor = std::make_unique<test::Listener>();
  const std::string endpoint = impostor->endpoint();
  auto transport = open_zmq_transport(options(endpoint));
  REQUIRE(transport != nullptr);
  // A greeting of ZMTP 3.0 without keys, and then no command of it.
  std::string said(64, '\0');
  said[0] = '\xff', said[9] = 0x7f, said[10] = 3;
  said.replace(12, 4, "NULL");
  said += "\x04\x05wrong";
  const int accepted = impostor->take();
  REQUIRE(accepted >= 0);
  REQUIRE(send(accepted, said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
  char byte;
  while (recv(accepted, &byte, 1, 0) > 0) {  // until it is hung up on
  }
  close(accepted);
  impostor.reset();
  Receiver service(endpoint);
  CHECK(becomes(*transport, Link::up));
  CHECK(transport->connection(now_ns()).queues_lost == 1);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(service.receive() == "one");
}

TEST_CASE("with the right keys on both sides what is sent arrives") {
  const Pair service, own;
  Receiver receiver("tcp://127.0.0.1:*", service.secret);
  auto transport = open_zmq_transport(options(receiver.endpoint, service, own));
  REQUIRE(transport != nullptr);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  REQUIRE(receiver.admit(true));
  CHECK(receiver.receive() == "one");
  CHECK(becomes(*transport, Link::up));
}

TEST_CASE("a key that is not accepted is said, what waited is given up, and the key is tried again") {
  const Pair service, own;
  Receiver receiver("tcp://127.0.0.1:*", service.secret);
  auto transport = open_zmq_transport(options(receiver.endpoint, service, own));
  REQUIRE(transport != nullptr);
  CHECK(transport->send(bytes("lost"), 4) == SendResult::sent);
  REQUIRE(receiver.admit(false));
  CHECK(becomes(*transport, Link::rejected));
  CHECK(transport->connection(now_ns()).queues_lost == 1);
  CHECK(transport->send(bytes("full"), 4) == SendResult::full);
  // Somebody adds it.
  bool asked = false;
  for (int i = 0; i < 10000 && !asked; ++i) {
    transport->connection(now_ns());
    asked = receiver.admit(true, 1);
  }
  REQUIRE(asked);
  CHECK(becomes(*transport, Link::up));
  CHECK(transport->send(bytes("two"), 3) == SendResult::sent);
  CHECK(receiver.receive() == "two");
}

TEST_CASE("nothing goes to a service with another key, nor to one without keys") {
  const Pair service, other, own;
  SECTION("another key") {
    Receiver receiver("tcp://127.0.0.1:*", service.secret);
    auto transport = open_zmq_transport(options(receiver.endpoint, other, own));
    REQUIRE(transport != nullptr);
    transport->send(bytes("secret"), 6);
    CHECK(becomes(*transport, Link::other_key));
    CHECK_FALSE(receiver.admit(true, 1));
  }
  SECTION("no keys") {
    Receiver receiver;
    auto transport = open_zmq_transport(options(receiver.endpoint, other, own));
    REQUIRE(transport != nullptr);
    transport->send(bytes("secret"), 6);
    // Which of the two is chance: libzmq says why only where this end is the first to see it.
    CHECK(becomes(*transport, Link::one_sided, Link::other_key));
  }
}

TEST_CASE("a service that demands keys is told from one that is not ZeroMQ") {
  const Pair service;
  Receiver receiver("tcp://127.0.0.1:*", service.secret);
  auto transport = open_zmq_transport(options(receiver.endpoint));
  REQUIRE(transport != nullptr);
  CHECK(becomes(*transport, Link::one_sided));
}

std::unique_ptr<Transport> open_both(const Receiver& first, const Receiver& second) {
  auto transport = open_zmq_transport(options(first.endpoint + "," + second.endpoint));
  REQUIRE(transport != nullptr);
  CHECK(becomes(*transport, Link::up));
  CHECK(transport->connection(now_ns()).endpoint == 0);
  CHECK(transport->connection(now_ns()).endpoints == 2);
  return transport;
}

// Used, and there.
bool becomes_used(Transport& transport, size_t endpoint) {
  for (int i = 0; i < 10000; ++i) {
    const Transport::Connection now = transport.connection(now_ns());
    if (now.endpoint == endpoint && now.link == Link::up) return true;
    usleep(1000);
  }
  return false;
}

TEST_CASE("when one of two endpoints closes the other one is used, and what is sent then arrives") {
  auto first = std::make_unique<Receiver>();
  Receiver second;
  auto transport = open_both(*first, second);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(first->receive() == "one");
  const std::string at = first->endpoint;
  first.reset();
  CHECK(becomes(*transport, Link::refused));
  CHECK(transport->send(bytes("lost"), 4) == SendResult::sent);
  const uint64_t begin_ns = now_ns();
  CHECK(becomes_used(*transport, 1));
  CHECK(now_ns() - begin_ns >= endpoint_wait_ns / 2);  // a restart is waited for
  const Transport::Connection now = transport->connection(now_ns());
  CHECK(now.moves == 1);
  CHECK(now.queues_lost == 1);
  CHECK(now.handshakes == 2);
  CHECK(transport->send(bytes("two"), 3) == SendResult::sent);
  CHECK(second.receive() == "two");
  second.answer("do this");
  std::vector<uint8_t> received;
  bool came = false;
  for (int i = 0; i < 10000 && !came; ++i) {
    came = transport->receive(&received);
    if (!came) usleep(1000);
  }
  CHECK(came);
  // It comes back, and is not needed.
  first = std::make_unique<Receiver>(at);
  CHECK(transport->send(bytes("three"), 5) == SendResult::sent);
  CHECK(second.receive() == "three");
  CHECK(transport->connection(now_ns()).moves == 1);
}

TEST_CASE("an endpoint that does not answer is left for the next one") {
  Receiver first, second;
  auto transport = open_both(first, second);
  transport->unanswered();
  CHECK(becomes_used(*transport, 1));
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(second.receive() == "one");
}

TEST_CASE("a process without a descriptor left goes on, and connects when it has some") {
  auto first = std::make_unique<Receiver>();
  Receiver second;
  auto transport = open_both(*first, second);
  first.reset();
  rlimit usual{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const int lowest_free = dup(STDERR_FILENO);
  REQUIRE(close(lowest_free) == 0);
  const rlimit none{static_cast<rlim_t>(lowest_free), usual.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (int i = 0; i < 10000 && transport->connection(now_ns()).queues_lost == 0; ++i) usleep(1000);
  const Transport::Connection without = transport->connection(now_ns());
  const SendResult sent = transport->send(bytes("lost"), 4);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(without.link != Link::up);
  CHECK(without.queues_lost == 1);
  CHECK(sent == SendResult::full);
  CHECK(becomes(*transport, Link::up));
  CHECK(transport->connection(now_ns()).endpoint == 1);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(second.receive() == "one");
}

TEST_CASE("of two endpoints the one that accepts our key is used at once") {
  const Pair service, own;
  Receiver first("tcp://127.0.0.1:*", service.secret), second("tcp://127.0.0.1:*", service.secret);
  ZmqOptions o = options(first.endpoint + "," + second.endpoint, service, own);
  auto transport = open_zmq_transport(o);
  REQUIRE(transport != nullptr);
  REQUIRE(first.admit(false));
  std::thread admission([&second] { second.admit(true); });
  const uint64_t begin_ns = now_ns();
  CHECK(becomes_used(*transport, 1));
  admission.join();
  CHECK(now_ns() - begin_ns < endpoint_wait_ns);
  CHECK(transport->connection(now_ns()).queues_lost == 1);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(second.receive() == "one");
}

TEST_CASE("the choice says which of several endpoints is the first") {
  Receiver first, second;
  ZmqOptions o = options(first.endpoint + "," + second.endpoint);
  o.choice = 3;
  auto transport = open_zmq_transport(o);
  REQUIRE(transport != nullptr);
  CHECK(transport->connection(now_ns()).endpoint == 1);
  CHECK(transport->send(bytes("one"), 3) == SendResult::sent);
  CHECK(second.receive() == "one");
}

TEST_CASE("keys that libzmq does not take are one warning that names the settings") {
  warnings.clear();
  log_set(remember);
  ZmqOptions o = options("tcp://127.0.0.1:1");
  o.keys = {"no key", "no key"};
  CHECK(open_zmq_transport(o) == nullptr);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("NCCL_PROBE_SERVER_KEY") != std::string::npos);
  log_set(nullptr);
}

TEST_CASE("with nobody listening the queue fills and then refuses, without ever blocking") {
  auto transport = open_zmq_transport(options("tcp://127.0.0.1:1"));
  REQUIRE(transport != nullptr);
  int sent = 0, full = 0;
  for (int i = 0; i < 100; ++i) {
    const SendResult result = transport->send(bytes("x"), 1);
    sent += result == SendResult::sent;
    full += result == SendResult::full;
  }
  CHECK(sent == 8);
  CHECK(full == 92);
}

TEST_CASE("a missing library is one warning") {
  warnings.clear();
  log_set(remember);
  ZmqOptions o = options("tcp://127.0.0.1:1");
  o.library = "libzmq-that-is-not-there.so.5";
  CHECK(open_zmq_transport(o) == nullptr);
  CHECK(open_zmq_transport(o) == nullptr);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("tcp://127.0.0.1:1") != std::string::npos);
  CHECK(warnings[0].find("libzmq-that-is-not-there.so.5") != std::string::npos);
  log_set(nullptr);
}

TEST_CASE("a library that is not ZeroMQ is refused") {
  ZmqOptions o = options("tcp://127.0.0.1:1");
  o.library = "libm.so.6";
  CHECK(open_zmq_transport(o) == nullptr);
}

TEST_CASE("an endpoint that ZeroMQ does not understand is one warning that names the variable") {
  warnings.clear();
  log_set(remember);
  CHECK(open_zmq_transport(options("gopher://127.0.0.1:70")) == nullptr);
  CHECK(open_zmq_transport(options("tcp://127.0.0.1:notaport")) == nullptr);
  CHECK(open_zmq_transport(options("tcp://127.0.0.1:1,nonsense")) == nullptr);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("NCCL_PROBE_ENDPOINT=\"gopher://127.0.0.1:70\"") != std::string::npos);
  log_set(nullptr);
}

}  // namespace
}  // namespace ccld::probe
