#include "decision/ingest/connection_room.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "decision/ingest/limits.h"
#include "decision/server/connection_watch.h"

namespace ccld::decision::ingest {
namespace {

using Memory = ConnectionRoom::Memory;

// A listening socket, and connections with both ends in this process.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = of("127.0.0.1");
    socklen_t length = sizeof(address);
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), length) == 0);
    REQUIRE(listen(fd_, 100) == 0);
    REQUIRE(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length) == 0);
    port_ = address.sin_port;
  }
  ~Listener() {
    for (const int fd : all_) close(fd);
    close(fd_);
  }
  Listener(const Listener&) = delete;
  std::string endpoint() const { return "tcp://127.0.0.1:" + std::to_string(ntohs(port_)); }
  // Our end of a connection from that address, over which so many bytes have come.
  int connect_from(const char* from, size_t bytes = 0) {
    const int client = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in own = of(from);
    sockaddr_in service = of("127.0.0.1");
    service.sin_port = port_;
    REQUIRE(bind(client, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0);
    REQUIRE(connect(client, reinterpret_cast<const sockaddr*>(&service), sizeof(service)) == 0);
    const int accepted = accept(fd_, nullptr, nullptr);
    REQUIRE(accepted >= 0);
    all_.insert(all_.end(), {client, accepted});
    client_of_[accepted] = client;
    say(accepted, bytes);
    return accepted;
  }
  // So many bytes more come over it, and are read.
  void say(int accepted, size_t bytes) {
    std::vector<char> some(64 << 10);
    while (bytes > 0) {
      const size_t now = std::min(bytes, some.size());
      REQUIRE(send(client_of_[accepted], some.data(), now, 0) == static_cast<ssize_t>(now));
      REQUIRE(recv(accepted, some.data(), now, MSG_WAITALL) == static_cast<ssize_t>(now));
      bytes -= now;
    }
  }

 private:
  static sockaddr_in of(const char* text) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, text, &address.sin_addr);
    return address;
  }
  int fd_;
  in_port_t port_ = 0;
  std::vector<int> all_;
  std::map<int, int> client_of_;
};

bool is_cut(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

uint32_t quiet_for_ms(int fd) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  REQUIRE(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
  return info.tcpi_last_data_recv;
}

// Of which the first `free` are not in use.
size_t descriptors_with(size_t free) {
  const int next = dup(STDIN_FILENO);
  close(next);
  return static_cast<size_t>(next) + free;
}

}  // namespace

TEST_CASE("While descriptors are free no connection is cut") {
  Listener listener;
  const int idle = listener.connect_from("127.0.0.1");
  ConnectionRoom room(listener.endpoint(), descriptors_with(1000), 0);
  room.look(ns_per_s, Memory::enough);
  CHECK_FALSE(is_cut(idle));
  CHECK(room.counters().cut_quiet == 0);
}

TEST_CASE("Without room those go that say nothing, first of who has most of them, and who speaks stays") {
  Listener listener;
  std::vector<int> speaking, others, many;
  for (int i = 0; i < 4; ++i) speaking.push_back(listener.connect_from("127.0.0.1"));
  for (int i = 0; i < 4; ++i) others.push_back(listener.connect_from("127.0.0.3"));
  for (int i = 0; i < 60; ++i) many.push_back(listener.connect_from("127.0.0.2"));
  // 32 are the least reserve, and twice as many are made free.
  const size_t free = 40;
  ConnectionRoom room(listener.endpoint(), descriptors_with(free), 0);
  const Nanoseconds now = 100 * ns_per_s;
  for (const int fd : speaking) room.spoke(fd, 100, now - ns_per_s);
  room.look(now, Memory::enough);
  CHECK(room.counters().cut_quiet == 0);  // there is more than the reserve
  for (int i = 0; i < 8; ++i) many.push_back(listener.connect_from("127.0.0.2"));
  room.look(now + ns_per_s, Memory::enough);
  CHECK(room.counters().cut_quiet > 0);
  CHECK(room.counters().cut_speaking == 0);
  // Which of them depends on what the kernel counts in milliseconds: they came at the same time.
  CHECK(std::count_if(many.begin(), many.end(), is_cut) == static_cast<ptrdiff_t>(room.counters().cut_quiet));
  for (const int fd : speaking) CHECK_FALSE(is_cut(fd));
  for (const int fd : others) CHECK_FALSE(is_cut(fd));
}

TEST_CASE("Where all speak, who has most connections loses his own") {
  Listener listener;
  std::vector<int> few, many;
  for (int i = 0; i < 4; ++i) few.push_back(listener.connect_from("127.0.0.1"));
  for (int i = 0; i < 80; ++i) many.push_back(listener.connect_from("127.0.0.2"));
  ConnectionRoom room(listener.endpoint(), descriptors_with(20), 0);
  const Nanoseconds now = 100 * ns_per_s;
  for (const int fd : few) room.spoke(fd, 100, now - 9 * ns_per_s);
  for (const int fd : many) room.spoke(fd, 100, now);
  room.look(now, Memory::enough);
  CHECK(room.counters().cut_quiet == 0);
  CHECK(room.counters().cut_speaking > 0);
  for (const int fd : few) CHECK_FALSE(is_cut(fd));
}

TEST_CASE(
    "Where memory is short the connections that say nothing go, down to a small part of it, and who speaks stays") {
  Listener listener;
  std::vector<int> speaking, many;
  for (int i = 0; i < 4; ++i) speaking.push_back(listener.connect_from("127.0.0.1"));
  const int newest = listener.connect_from("127.0.0.1");
  many.push_back(listener.connect_from("127.0.0.2"));
  while (quiet_for_ms(many.front()) < 20) poll(nullptr, 0, 1);  // the kernel counts milliseconds, or ticks
  for (int i = 1; i < 60; ++i) many.push_back(listener.connect_from("127.0.0.2"));
  // So much that a sixteenth of it is ten connections.
  ConnectionRoom room(listener.endpoint(), descriptors_with(1000), 160 * ConnectionRoom::connection_bytes);
  const Nanoseconds now = 100 * ns_per_s;
  for (const int fd : speaking) room.spoke(fd, 100, now - ns_per_s);
  room.look(now, Memory::short_of);
  CHECK(room.counters().cut_quiet == 51);
  CHECK(room.counters().cut_speaking == 0);
  CHECK(is_cut(many.front()));
  CHECK_FALSE(is_cut(newest));
  for (const int fd : speaking) CHECK_FALSE(is_cut(fd));
}

TEST_CASE(
    "At the last resort an address with more connections than a machine has processes loses them, though they speak") {
  Listener listener;
  std::vector<int> few, many;
  for (int i = 0; i < 4; ++i) few.push_back(listener.connect_from("127.0.0.1"));
  for (size_t i = 0; i < ConnectionRoom::of_address_most + 20; ++i) many.push_back(listener.connect_from("127.0.0.2"));
  ConnectionRoom room(listener.endpoint(), descriptors_with(1000), uint64_t{256} << 20);
  const Nanoseconds now = 100 * ns_per_s;
  for (const int fd : few) room.spoke(fd, 100, now - 9 * ns_per_s);
  for (const int fd : many) room.spoke(fd, 100, now);
  room.look(now, Memory::short_of);
  CHECK(room.counters().cut_speaking == 0);
  room.look(now + ns_per_s, Memory::last_resort);
  CHECK(room.counters().cut_speaking == 20);
  for (const int fd : few) CHECK_FALSE(is_cut(fd));
}

TEST_CASE("Where memory is short those go that hold a message which never ends, whether they have spoken or not") {
  Listener listener;
  // Of which a sixteenth is four messages.
  ConnectionRoom room(listener.endpoint(), descriptors_with(1000), 64 * message_bytes_max);
  Nanoseconds now = 100 * ns_per_s;
  const size_t part = message_bytes_max - 1;
  std::vector<int> jobs, never_spoke;
  const auto work = [&] {
    now += ns_per_s;
    for (const int fd : jobs) listener.say(fd, 50'000), room.spoke(fd, 49'900, now);
  };
  for (int i = 0; i < 10; ++i) jobs.push_back(listener.connect_from("127.0.0.1", 500'000));
  for (int i = 0; i < 10; ++i) never_spoke.push_back(listener.connect_from("127.0.0.2", part));
  work();
  SECTION("no word before it") {
    room.look(now, Memory::enough);
    CHECK(room.counters().cut_quiet == 0);
    room.look(now, Memory::short_of);
    CHECK(room.counters().cut_quiet == 6);
  }
  SECTION("a batch before it") {
    const int sly = listener.connect_from("127.0.0.3", 100'000);
    room.look(now, Memory::short_of);
    for (int i = 0; i < 3; ++i) {
      work();
      room.spoke(sly, 99'000, now);
      listener.say(sly, i < 2 ? 99'100 : 99'000 + 5 * part);
      room.look(now, Memory::short_of);
    }
    CHECK(is_cut(sly));
    CHECK(room.counters().cut_speaking == 1);
  }
  SECTION("a batch before it, and then for long nothing, before memory was short") {
    std::vector<int> silent;
    for (int i = 0; i < 10; ++i) silent.push_back(listener.connect_from("127.0.0.3", part));
    for (const int fd : silent) room.spoke(fd, 100, now);
    for (int i = 0; i < 11; ++i) work();
    room.look(now, Memory::short_of);
    CHECK(room.counters().cut_quiet == 16);
  }
  CHECK(room.counters().cut_speaking <= 1);
  for (const int fd : jobs) CHECK_FALSE(is_cut(fd));
}

TEST_CASE("The bytes of batches count as held by nobody, however many came before memory was short") {
  Listener listener;
  ConnectionRoom room(listener.endpoint(), descriptors_with(1000), 64 * message_bytes_max);
  Nanoseconds now = 100 * ns_per_s;
  std::vector<int> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(listener.connect_from("127.0.0.1", 4 * message_bytes_max));
  for (int look = 0; look < 4; ++look) {
    now += look == 2 ? 60 * ns_per_s : ns_per_s;
    for (const int fd : jobs) listener.say(fd, message_bytes_max / 2), room.spoke(fd, message_bytes_max / 2 - 200, now);
    room.look(now, Memory::short_of);
  }
  CHECK(room.counters().cut_quiet + room.counters().cut_speaking == 0);
}

TEST_CASE("Where memory is short who holds much is cut while the analysis is busy elsewhere") {
  Listener listener;
  const uint64_t memory_max_bytes = 64 * message_bytes_max;
  ConnectionRoom room(listener.endpoint(), descriptors_with(1000), memory_max_bytes);
  const int brief = listener.connect_from("127.0.0.1", 100);
  std::vector<int> holders;
  for (int i = 0; i < 8; ++i) holders.push_back(listener.connect_from("127.0.0.2", message_bytes_max));
  std::atomic<double> used_part = 0.6;
  std::promise<void> looked;
  const server::ConnectionWatch watch(room, memory_max_bytes, [&, first = true]() mutable {
    if (std::exchange(first, false)) looked.set_value();
    return static_cast<uint64_t>(used_part * static_cast<double>(memory_max_bytes));
  });
  looked.get_future().wait();
  for (const int fd : holders) CHECK_FALSE(is_cut(fd));
  used_part = 0.75;
  std::vector<pollfd> any;
  for (const int fd : holders) any.push_back({fd, POLLIN, 0});
  REQUIRE(poll(any.data(), any.size(), 10'000) > 0);
  // counters() waits until all are cut. A sixteenth of the limit may be held: three such messages and some bytes.
  CHECK(room.counters().cut_quiet == 5);
  CHECK(std::count_if(holders.begin(), holders.end(), is_cut) == 5);
  CHECK_FALSE(is_cut(brief));
}

TEST_CASE("Local sockets are left alone") {
  ConnectionRoom room("ipc:///tmp/nowhere", descriptors_with(1), 0);
  room.spoke(5, 100, ns_per_s);
  room.look(ns_per_s, Memory::enough);
  CHECK(room.counters().cut_quiet + room.counters().cut_speaking == 0);
}

}  // namespace ccld::decision::ingest
