#include "decision/server/connection_queue.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace ccld::decision::server {
namespace {

using report::HttpRefusal;

constexpr ConnectionQueue::Limits few{.threads = 8, .threads_in_reserve = 2, .threads_of_address = 2, .waiting_max = 6};

// Connections by number; their time is over at that number of seconds if it is not told otherwise.
struct Queue {
  ConnectionQueue queue{few};
  // The number of the one that gives way, 0: none does.
  uint64_t add(uint64_t id, const std::string& address) {
    lost = queue.add({id, static_cast<int>(id), address}, static_cast<Nanoseconds>(id) * ns_per_s);
    return lost.has_value() ? lost->connection.id : 0;
  }
  void add_ready(uint64_t id, const std::string& address) {
    REQUIRE(add(id, address) == 0);
    queue.make_ready(id);
  }
  // Numbers of those that get a thread now.
  std::vector<uint64_t> serve() {
    std::vector<uint64_t> ids;
    while (const auto turn = queue.next()) {
      ids.push_back(turn->connection.id);
      hurried.push_back(turn->hurry);
    }
    return ids;
  }
  std::optional<ConnectionQueue::Lost> lost;
  std::vector<bool> hurried;
};

using Ids = std::vector<uint64_t>;

std::string sharer(const char* text) {
  sockaddr_storage peer{};
  if (inet_pton(AF_INET, text, &reinterpret_cast<sockaddr_in&>(peer).sin_addr) == 1)
    peer.ss_family = AF_INET;
  else if (inet_pton(AF_INET6, text, &reinterpret_cast<sockaddr_in6&>(peer).sin6_addr) == 1)
    peer.ss_family = AF_INET6;
  return sharer_of(peer);
}

}  // namespace

TEST_CASE("A connection gets a thread when its request has come, and not before") {
  Queue q;
  CHECK(q.add(1, "a") == 0);
  CHECK(q.serve().empty());
  CHECK(q.queue.silent(1) != nullptr);
  q.queue.make_ready(1);
  CHECK(q.queue.silent(1) == nullptr);
  CHECK(q.serve() == Ids{1});
  CHECK(q.serve().empty());
}

TEST_CASE("Addresses take turns, each in the order its connections came") {
  Queue q;
  for (const uint64_t id : {1, 2, 3, 4}) q.add_ready(id, "a");
  q.add_ready(5, "b");
  q.add_ready(6, "c");
  CHECK(q.serve() == Ids{1, 5, 6, 2, 3, 4});
}

TEST_CASE("An address alone has all threads but the reserve, in which another one finds its share at once") {
  Queue q;
  for (const uint64_t id : {1, 2, 3, 4, 5, 6}) q.add_ready(id, "a");
  CHECK(q.serve() == Ids{1, 2, 3, 4, 5, 6});
  CHECK(q.hurried == std::vector<bool>{false, false, true, true, true, true});
  for (const uint64_t id : {7, 8, 9}) q.add_ready(id, "a");
  CHECK(q.serve().empty());
  for (const uint64_t id : {10, 11, 12}) q.add_ready(id, "b");
  CHECK(q.serve() == Ids{10, 11});
  CHECK(q.hurried.back());  // all threads are busy
  // What is free goes to who has less than his share.
  q.queue.done("a");
  CHECK(q.serve().empty());
  q.queue.done("b");
  CHECK(q.serve() == Ids{12});
}

TEST_CASE("Where there is no room the longest silent connection of the address that has most gives way") {
  Queue q;
  q.add_ready(1, "a");
  for (const uint64_t id : {2, 3, 4}) CHECK(q.add(id, "a") == 0);
  for (const uint64_t id : {5, 6}) CHECK(q.add(id, "b") == 0);
  CHECK(q.add(7, "b") == 2);  // of "a", which had four
  CHECK(q.lost->reason == HttpRefusal::pushed_out);
  CHECK(q.add(8, "c") == 3);  // both have three: who is silent for longest
  CHECK(q.add(9, "b") == 5);
  CHECK(q.add(10, "b") == 6);  // its own
  CHECK(q.serve() == Ids{1});
}

TEST_CASE("Who came with all its requests is refused further ones, and others are taken in") {
  Queue q;
  for (const uint64_t id : {1, 2, 3, 4, 5, 6}) q.add_ready(id, "a");
  CHECK(q.add(7, "a") == 7);
  CHECK(q.lost->reason == HttpRefusal::no_room);
  CHECK(q.add(8, "b") == 6);
  CHECK(q.lost->reason == HttpRefusal::no_room);
  q.queue.make_ready(8);
  CHECK(q.serve() == Ids{1, 8, 2, 3, 4, 5});
}

TEST_CASE("Whatever one address sends, another one's request is not lost and is served next") {
  Queue q;
  uint64_t id = 1000;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 20; ++i) {
      q.add(++id, "flood");
      if (i % 3 == 0) q.queue.make_ready(id);
    }
    q.serve();
    const uint64_t other = ++id;
    REQUIRE(q.add(other, "other") != other);
    for (int i = 0; i < 20; ++i) REQUIRE(q.add(++id, "flood") != other);
    q.queue.make_ready(other);
    REQUIRE(q.serve().front() == other);
    q.queue.done("other");
  }
}

TEST_CASE("A silent connection ends with its time, a ready one waits for its thread") {
  Queue q;
  CHECK(q.queue.next_expiry_ns() == INT64_MAX);
  for (const uint64_t id : {1, 2, 3}) q.add(id, "a");
  q.queue.make_ready(1);
  CHECK(q.queue.next_expiry_ns() == 2 * ns_per_s);
  CHECK(q.queue.take_expired(2 * ns_per_s - 1).empty());
  const auto expired = q.queue.take_expired(2 * ns_per_s);
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].id == 2);
  q.queue.remove(3);  // its client went away
  CHECK(q.queue.next_expiry_ns() == INT64_MAX);
  q.queue.remove(1);  // it has its request already
  CHECK(q.serve() == Ids{1});
}

TEST_CASE("A share is that of an address, of IPv6 that of its network") {
  CHECK(sharer("10.0.0.7") == "10.0.0.7");
  CHECK(sharer("::ffff:10.0.0.7") == "10.0.0.7");
  CHECK(sharer("::1") == "::1");
  CHECK(sharer("2001:db8:0:1::7") == "2001:db8:0:1::/64");
  CHECK(sharer("2001:db8:0:1:ffff::9") == sharer("2001:db8:0:1::7"));
  CHECK(sharer("2001:db8:0:2::7") != sharer("2001:db8:0:1::7"));
}

}  // namespace ccld::decision::server
