// Connections that wait for a thread of the query API, shared fairly between the addresses that they come from: what
// one address does keeps no other one out.
//
//   A connection is silent until its request has come. Then it is ready for a thread.
//   Threads: addresses take turns. Each may hold its share; more only while as many stay free as are in reserve. So
//   another address finds a free one at once.
//   Room: when there is none for a newcomer, an address with most connections here gives way, the newcomer's own
//   included. Of its connections the longest silent one goes; where none is silent, the newest. So who sends its
//   request at once is not kept out by those of its own address that do not.
//
// Contract: pure, time is given. All calls take time in proportion to waiting_max at most. Errors: none. Threads: one
// at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "decision/model/types.h"
#include "decision/report/http_counters.h"

struct sockaddr_storage;

namespace ccld::decision::server {

class ConnectionQueue {
 public:
  struct Limits {
    size_t threads, threads_in_reserve, threads_of_address, waiting_max;
  };
  struct Connection {
    uint64_t id = 0;  // no two have the same
    int descriptor = -1;
    std::string address;  // whose share it is of
  };
  struct Lost {
    Connection connection;
    report::HttpRefusal reason;
  };
  // `hurry`: threads are short for it, be it for all or because its address holds its share already.
  struct Turn {
    Connection connection;
    bool hurry = false;
  };

  explicit ConnectionQueue(const Limits& limits) : limits_(limits) {}

  // A silent one, for which its request is waited until then. What has to go for it, perhaps itself.
  std::optional<Lost> add(Connection, Nanoseconds until_ns);
  // nullptr: it is not silent here (any more).
  const Connection* silent(uint64_t id) const;
  // Its request has come, or the client went away. Both do nothing if it is not silent here.
  void make_ready(uint64_t id);
  void remove(uint64_t id);
  // Silent ones whose time is over; they are gone.
  std::vector<Connection> take_expired(Nanoseconds now_ns);
  Nanoseconds next_expiry_ns() const;  // INT64_MAX: none is silent

  // For a thread that is free, if there is one that may have it: it holds the thread until done().
  std::optional<Turn> next();
  void done(const std::string& address);

  // All that wait; they are gone.
  std::vector<Connection> take_all();

 private:
  struct Waiting {
    Connection connection;
    Nanoseconds until_ns;
    bool ready;
  };
  struct Share {
    size_t waiting = 0, served = 0;
    uint64_t turn = 0;  // the newest one it had
  };
  using Position = std::vector<Waiting>::iterator;
  Position find(uint64_t id);
  Position to_give_way();
  Connection take(Position);
  void forget_if_idle(const std::string& address);

  const Limits limits_;
  std::vector<Waiting> waiting_;         // as they came
  std::map<std::string, Share> shares_;  // of addresses that have any
  size_t served_ = 0;
  uint64_t turns_ = 0;
};

// Whose share a connection from there is of: "10.0.0.7"; of IPv6 the network that a host has its addresses from,
// "2001:db8:0:1::/64": it may take as many of them as it likes.
std::string sharer_of(const sockaddr_storage& peer);

}  // namespace ccld::decision::server
