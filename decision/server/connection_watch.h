// Cuts telemetry connections that hold much memory, also while the analysis is busy. ZeroMQ's I/O thread receives all
// the time, also messages that never end. The analysis looks at memory only between two messages: among strangers one
// tick took 476 ms, and 80 MB arrived meanwhile.
//
// Contract: runs a thread of its own from construction to destruction, none if there is no limit. From
// MemoryGuard::let_go_from on it cuts what ConnectionRoom cuts where memory is short. The last resort is left to the
// analysis. Threads: constructed and destroyed by one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "decision/ingest/connection_room.h"

namespace ccld::decision::server {

class ConnectionWatch {
 public:
  // `memory_max_bytes`: 0: no limit. `resident_bytes`: the resident memory of this process; called by that thread.
  ConnectionWatch(ingest::ConnectionRoom&, uint64_t memory_max_bytes, std::function<uint64_t()> resident_bytes);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;

 private:
  void run();

  ingest::ConnectionRoom& room_;
  const uint64_t memory_max_bytes_;
  const std::function<uint64_t()> resident_bytes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ccld::decision::server
