// Looks after the memory that telemetry connections take while the analysis is busy. ZeroMQ's own thread receives all the
// time, also messages that stop in the middle, and 170 MB a second were seen; the analysis looks between two messages,
// and among strangers half a second may lie between two looks.
//
// Contract: a thread of its own, from construction to destruction; none without a limit. It cuts what is cut where memory
// is short (ingest/connection_room.h), never for the last resort: that is the analysis' to say. Threads: any one.
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
  // `memory_max_bytes`: 0: no limit. `resident_bytes`: what this process has.
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
