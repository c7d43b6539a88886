// Who comes and goes leaves nothing: descriptors, threads and memory of the service stay as they were.
#include <sys/time.h>

#include "test/integration/serve/service.h"
#include "test/integration/serve/taken.h"

namespace ccld::test {
namespace {

constexpr uint32_t connections = 1000;  // of each kind, in rounds of so many:
constexpr uint32_t at_once = 20;
constexpr int known_max = 100;  // processes and communicators that the service remembers
// glibc's heap still grows: after two rounds by up to 2.5 MB, after ten by nothing. A connection of libzmq takes 24 KB,
// so this is what a quarter of them would leave.
constexpr uint64_t warm_up_rounds = 2;
constexpr size_t rss_margin_kb = 6144;

// Connections to the telemetry port that a probe or a stranger makes, speaks over and closes.
class Probes {
 public:
  explicit Probes(const std::string& endpoint)
      : endpoint_(endpoint), port_(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))) {}

  // So many processes, each with a communicator of its own, speak for the `batch_seq`-th time; `meanwhile` is done
  // while they are there.
  void come_and_go(uint32_t first, uint32_t processes, uint64_t batch_seq, const std::function<void()>& meanwhile) {
    std::vector<zmq::socket_t> sockets;
    for (uint32_t i = first; i < first + processes; ++i) {
      WireBatch b;
      add_comm_up(b, {.comm_uid = 0x1000 + i});
      add_agent_health(b);
      zmq::socket_t& socket = sockets.emplace_back(context_, zmq::socket_type::dealer);
      socket.set(zmq::sockopt::linger, 0);
      socket.set(zmq::sockopt::rcvtimeo, 10'000);
      socket.connect(endpoint_);
      REQUIRE(socket.send(zmq::buffer(b.finish({.pid = 1000 + i, .batch_seq = batch_seq, .acknowledge = true})),
                          zmq::send_flags::none));
    }
    meanwhile();
    for (zmq::socket_t& socket : sockets) {
      zmq::message_t acknowledgement;
      REQUIRE(socket.recv(acknowledgement));
    }
  }

  // Ends within the handshake.
  void break_off() const {
    const int fd = connect_to(port_);
    const unsigned char greeting[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3};
    REQUIRE(write(fd, greeting, sizeof greeting) == sizeof greeting);
    close(fd);
  }

 private:
  zmq::context_t context_;
  const std::string endpoint_;
  const int port_;
};

void send_text(int fd, const std::string& text) {
  REQUIRE(write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

// One request on a connection of its own. Of three the first is answered, one ends within its head, and one does not
// wait for its answer.
void ask_once(int port, int number) {
  const int fd = connect_to(port);
  const std::string request = "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (number % 3 == 0) {
    send_text(fd, request);
    const timeval patience{10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    std::string answer;
    char part[4096];
    ssize_t n = 0;
    while ((n = read(fd, part, sizeof part)) > 0) answer.append(part, static_cast<size_t>(n));
    REQUIRE(n == 0);
    REQUIRE(answer.rfind("HTTP/1.1 200", 0) == 0);
  } else {
    send_text(fd, number % 3 == 1 ? request.substr(0, request.size() / 2) : request);
  }
  close(fd);
}

void come_and_go(const Service& service, Probes& probes, uint64_t round) {
  const int http_port = std::stoi(service.http.substr(service.http.rfind(':') + 1));
  int asked = 0;
  for (uint32_t first = 0; first < connections; first += at_once) {
    probes.come_and_go(first, at_once, round, [&] {
      probes.break_off();
      for (uint32_t i = 0; i < at_once; ++i) ask_once(http_port, asked++);
    });
  }
}

// How many lines of the metrics name the host of the probes.
size_t metric_lines_of_probes(const Service& service) {
  std::istringstream metrics(service.get_text("/metrics"));
  size_t found = 0;
  for (std::string line; std::getline(metrics, line);) found += contains(line, "node-a") ? 1 : 0;
  return found;
}

// Asked until the service has heard so many; what it remembers of them.
Json status_after(const Service& service, uint64_t heard) {
  return service.status_when([&](const Json& s) { return s["ingest"]["batches"] == heard; });
}

}  // namespace

TEST_CASE("A thousand probes that come back and a thousand questions leave no descriptor, thread or memory behind") {
  // Tables are full after the first round, and in the others the same processes come back: nothing new is remembered.
  const Service service({"--set", "processes_max=" + std::to_string(known_max), "--set",
                         "communicators_max=" + std::to_string(known_max)});
  Probes probes(service.telemetry);
  const pid_t pid = service.child.pid();
  uint64_t round = 0;
  while (round < warm_up_rounds) come_and_go(service, probes, ++round);
  Json status = status_after(service, round * connections);
  CHECK(status["process_count"] == known_max);
  const size_t metric_lines = metric_lines_of_probes(service);
  const Taken before = taken_by(pid);

  come_and_go(service, probes, ++round);
  status = status_after(service, round * connections);
  CHECK(status["process_count"] == known_max);
  CHECK(status["communicator_count"] <= known_max);
  CHECK(metric_lines_of_probes(service) <= metric_lines);
  // The last connections are closed when the service comes to them.
  Taken after;
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  const auto as_before = [&] {
    after = taken_by(pid);
    return after.files <= before.files && after.threads <= before.threads &&
           after.rss_kb <= before.rss_kb + rss_margin_kb;
  };
  while (!as_before() && Clock::now() < deadline) usleep(10'000);
  CHECK(after.files <= before.files);
  CHECK(after.threads <= before.threads);
  CHECK(after.rss_kb <= before.rss_kb + rss_margin_kb);
}

}  // namespace ccld::test
