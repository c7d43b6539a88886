// A job of eight ranks on two hosts that does an AllReduce ten times a second, and of which a rank stops to call when
// it is told to: the telemetry that its probes would send, each over a connection of its own. Threads: one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/strangers/line.h"

namespace ccld::bench {

class RealJob {
 public:
  static constexpr int ranks = 8, per_host = 4;
  static constexpr int64_t tick_ns = 100'000'000;

  RealJob(zmq::context_t&, const std::string& endpoint);

  // To be called every tick_ns.
  void tick();
  // From the next operation on this rank calls nothing; no_rank: all call again.
  static constexpr int no_rank = -1;
  void stop(int rank);

 private:
  struct Process {
    std::unique_ptr<Line> line;
    probe::Sender sender;
    uint64_t batches = 0;
  };
  void announce(int rank, probe::BatchEncoder&) const;
  void finish_operation(int rank, probe::BatchEncoder&) const;
  void stand_still(int rank, probe::BatchEncoder&) const;
  void heartbeat(int rank, probe::BatchEncoder&) const;

  std::vector<Process> processes_;
  probe::BatchEncoder encoder_;
  uint64_t op_ = 0, ticks_ = 0;
  int stopped_ = no_rank;
  int64_t stopped_ns_ = 0;
};

}  // namespace ccld::bench
