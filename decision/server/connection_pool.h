// Threads that serve the connections of the query API, and one that looks after those without a thread: it waits for
// their requests, sends away those for which there is no room, and lets those that were answered end.
//
//   accepting thread --take()--> silent --its request comes--> ready --next turn--> a thread: serve() --> ending,
//   closed
//                                  '-- slow, pushed out, no room --> told 503 ------------------------------^
//
// Contract: take() never waits for a client. Who has a thread and who gives way: connection_queue.h. What was refused
// is counted by reason; what was refused for want of room is one line in the log a minute at most. Errors: none.
// Threads: start(), take() and stop() from one, counters() from any.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "decision/report/http_counters.h"
#include "decision/server/connection_queue.h"

namespace ccld::decision::server {

class ConnectionPool {
 public:
  struct Options {
    ConnectionQueue::Limits limits;
    Nanoseconds request_timeout_ns;
    bool tls = false;
    std::string no_room;  // the answer to who is refused for want of room; with TLS there is none
  };
  // Answers a connection, and leaves it open. What it was refused for, if it was.
  using Serve = std::function<std::optional<report::HttpRefusal>(int descriptor, bool hurry)>;

  ConnectionPool(Options, Serve);
  ~ConnectionPool();
  ConnectionPool(const ConnectionPool&) = delete;

  void start();
  void take(int descriptor);  // it is the pool's from now on
  // Those that are ready are served before.
  void stop();
  report::HttpCounters counters() const;

 private:
  // Closed when the client has closed it, or at that time.
  struct Ending {
    uint64_t id;
    int descriptor;
    Nanoseconds until_ns;
    size_t bytes_left;
  };
  struct ToEnd {
    int descriptor;
    bool refused;  // for want of room
  };
  void serve_turns();
  void look_after();
  int until_next_ms();
  void look_at_silent(uint64_t id);
  void end_slow();
  void end_all_that_shall();
  void end(const ToEnd&);
  void look_at_ending(uint64_t id);
  void tell_refusals();
  void watch(int descriptor, uint64_t id);
  void wake_up() const;

  const Options options_;
  const Serve serve_;
  const int events_, alarm_;  // epoll, and an eventfd that ends its wait

  mutable std::mutex mutex_;
  std::condition_variable turn_;
  ConnectionQueue queue_;
  std::vector<ToEnd> to_end_;
  report::HttpCounters counters_;
  std::string newest_refused_;  // its address
  uint64_t next_id_;
  bool serving_ = false, looking_after_ = false;

  // Of the thread that looks after them.
  std::deque<Ending> ending_;  // as they came, so by time too
  report::HttpCounters told_;
  Nanoseconds next_told_ns_ = 0;

  std::vector<std::thread> threads_;
  std::thread looker_;
};

}  // namespace ccld::decision::server
