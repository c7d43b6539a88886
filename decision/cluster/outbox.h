// Messages to other nodes that wait to be sent, and the thread that sends them: a server that takes nothing holds up
// that thread and nobody else.
//
// Threads: put() and flush() any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "decision/cluster/bus.h"
#include "decision/cluster/priority.h"

namespace ccld::decision::cluster {

class Outbox {
 public:
  // A job of 16,384 ranks sends 6 MB/s: ten seconds, in which NATS has chosen another server.
  static constexpr size_t bytes_max = size_t{64} << 20;

  explicit Outbox(Bus& bus) : bus_(bus) {}
  ~Outbox();  // what still waits is lost
  Outbox(const Outbox&) = delete;

  void start();
  // False: there is no connection or no room, which is counted.
  bool put(std::string subject, std::vector<uint8_t> message, Priority);
  // Until all that was put has been sent or was refused. False: that took longer.
  bool flush(absl::Duration timeout);

  uint64_t sent() const { return sent_; }
  uint64_t not_sent() const { return not_sent_; }

 private:
  struct Message {
    std::string subject;
    std::vector<uint8_t> bytes;
  };
  void run();

  Bus& bus_;
  std::atomic<uint64_t> sent_ = 0, not_sent_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_, empty_;
  std::vector<Message> waiting_;
  size_t waiting_bytes_ = 0;  // those that the thread has taken too
  bool sending_ = false, stop_ = false;
  std::thread thread_;
};

}  // namespace ccld::decision::cluster
