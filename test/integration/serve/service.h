// The executable `ccld` as a running service, a sender of telemetry, and small helpers, for the tests of this folder.
#pragma once

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "httplib.h"
#include "nlohmann/json.hpp"
#include "schemas/abi/process.h"
#include "schemas/wire/control_generated.h"
#include "test/integration/serve/child_process.h"
#include "test/support/files/folder.h"
#include "test/unit/server/wire_batch.h"
#include "zmq.hpp"

namespace ccld::test {
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

inline const std::string ccld = CCLD_EXECUTABLE;

inline size_t lines(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }
inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// `ccld serve` on free ports, ready to be used. `within`: a command that runs it, as nsenter does.
class Service {
 public:
  explicit Service(std::vector<std::string> flags = {}, bool own_ports = true, const std::vector<std::string>& within = {})
      : child(command(std::move(flags), own_ports, within)) {
    const std::string line = child.wait_for_error("ccld: listening on ", start_max);
    std::istringstream words(line.empty() ? "" : line.substr(line.find(" on ") + 4));
    std::string and_word;
    words >> telemetry >> and_word >> http;
    if (http.empty()) FAIL("the service did not start: " << child.error());
  }

  Json get(const std::string& path) const { return Json::parse(get_text(path)); }
  std::string get_text(const std::string& path) const {
    httplib::Client client(http);
    client.set_read_timeout(start_max);
    const auto answer = client.Get(path);
    REQUIRE(answer);
    return answer->body;
  }
  // Asks until the status is as wished.
  Json status_when(const std::function<bool(const Json&)>& wished) const {
    const auto deadline = Clock::now() + start_max;
    Json status;
    do {
      status = get("/v1/status?ranks=1");
      if (wished(status)) return status;
      usleep(10'000);
    } while (Clock::now() < deadline);
    FAIL("the status did not become as wished: " << status.dump());
    return status;
  }
  Finished ask(std::vector<std::string> words) const {
    words.insert(words.begin(), ccld);
    words.insert(words.end(), {"--http", http});
    return run(words);
  }

  ChildProcess child;
  std::string telemetry, http;

 private:
  static std::vector<std::string> command(std::vector<std::string> flags, bool own_ports, std::vector<std::string> words) {
    words.insert(words.end(), {ccld, "serve"});
    if (own_ports) words.insert(words.end(), {"--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0"});
    // No test leaves anything in the state folder of who runs it.
    if (std::find(flags.begin(), flags.end(), "--state") == flags.end()) words.push_back("--no-history");
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
};

class Sender {
 public:
  explicit Sender(const std::string& endpoint) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::reconnect_ivl, 10);
    socket_.connect(endpoint);
  }
  void send(const Bytes& bytes, zmq::send_flags flags = zmq::send_flags::none) {
    REQUIRE(socket_.send(zmq::buffer(bytes), flags).has_value());
  }
  // What the service asks of this probe; nothing if it asks nothing in time.
  std::optional<Bytes> receive(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    socket_.set(zmq::sockopt::rcvtimeo, static_cast<int>(timeout.count()));
    zmq::message_t message;
    if (!socket_.recv(message)) return std::nullopt;
    return Bytes(message.data<uint8_t>(), message.data<uint8_t>() + message.size());
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

inline WireProcess process_of(int32_t rank, uint64_t batch_seq) {
  return {.pid = 4711u + static_cast<uint32_t>(rank), .batch_seq = batch_seq};
}

// A rank of a communicator comes up, finishes two operations and has a third in flight; its count of the finished ones is `count`.
inline void add_rank(WireBatch& b, uint64_t comm_uid, int32_t rank, int32_t rank_count, uint64_t count) {
  add_comm_up(b, {.comm_uid = comm_uid, .rank = rank, .rank_count = rank_count, .local_rank = rank, .cuda_device = rank});
  WireRounds rounds;
  rounds.comm_uid = comm_uid;
  rounds.rank = rank;
  rounds.signatures = {wire_signature(count)};
  add_rounds(b, rounds);
  add_in_flight(b, {.comm_uid = comm_uid, .rank = rank});
}

// All ranks of a communicator; counts one per rank.
inline void send_ranks(Sender& sender, const std::vector<uint64_t>& counts, uint64_t comm_uid = 0xabc, uint64_t batch_seq = 1) {
  const auto rank_count = static_cast<int32_t>(counts.size());
  for (int32_t rank = 0; rank < rank_count; ++rank) {
    WireBatch b;
    add_rank(b, comm_uid, rank, rank_count, counts[static_cast<size_t>(rank)]);
    sender.send(b.finish(process_of(rank, batch_seq)));
  }
}

// Below those that the kernel gives to connections: nobody gets it by chance before the server that it is for.
inline int free_port() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(20'000, 32'000);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  while (true) {
    const int port = ports(random);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    const int error = errno;
    close(fd);
    if (is_free) return port;
    REQUIRE(error == EADDRINUSE);
  }
}

inline int connect_to(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  return fd;
}

// The command ends with `status` and says one line that contains `part`.
inline void require_refused(const std::vector<std::string>& command, int status, const std::string& part) {
  const Finished finished = run(command);
  INFO(finished.error);
  CHECK(finished.status == status);
  CHECK(lines(finished.error) == 1);
  CHECK(finished.error.find("ccld: ") == 0);
  CHECK(contains(finished.error, part));
  CHECK(finished.output.empty());
}

}  // namespace ccld::test
