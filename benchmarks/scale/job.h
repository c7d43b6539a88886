// What the probes of a simulated training job say: the messages of each rank, encoded as the probe encodes them.
//
// A job at full speed: every rank flushes ten times a second, at a moment of its own; once a second it adds a heartbeat with
// a snapshot of each communicator, its siblings, metrics and network queues. Or a job that hangs: every rank says where it
// stands in an operation of all ranks.
//
// Contract: equal arguments give equal messages; memory is a few words for each rank. Threads: one object, one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "benchmarks/scale/layout.h"
#include "probe/transport/encoder.h"

namespace ccld::bench {

constexpr int64_t ns_per_ms = 1000000, ns_per_s = 1000000000;
constexpr int64_t flush_ns = 100 * ns_per_ms;  // NCCL_PROBE_FLUSH_MS
constexpr int64_t start_ns = 1000 * ns_per_s;  // of the job, on the service's clock

// Rounds a second of one rank: a transformer of some 80 layers, cut into microbatches.
constexpr int rounds_per_s(Group g) { return g == Group::world ? 10 : g == Group::tensor ? 500 : 50; }

enum class Fault { absent_rank, frozen_channel };

// An operation of all ranks that never ends.
struct Hang {
  Fault fault;
  int rank, channel;
  int64_t began_ns;
  uint64_t op;
};

class Job {
 public:
  Job(int ranks, uint64_t seed);

  const Layout& layout() const { return layout_; }
  // Ranks in the order in which they flush within flush_ns.
  const std::vector<int>& flush_order() const { return order_; }
  int64_t phase_ns(int rank) const { return phase_ns_[rank]; }

  // Adds the messages of one rank; each returns how many round records they hold.
  void announce(int rank, probe::BatchEncoder&) const;
  // Rounds that have ended since the last call.
  size_t flush(int rank, int64_t now_ns, probe::BatchEncoder&);
  void heartbeat(int rank, int64_t now_ns, probe::BatchEncoder&) const;
  void hang(int rank, const Hang&, int64_t now_ns, probe::BatchEncoder&) const;
  // The operation that hung ends after all.
  size_t recover(int rank, const Hang&, int64_t now_ns, probe::BatchEncoder&) const;

  // The newest operation of the group that has ended at that time.
  uint64_t newest_op(Group, int64_t now_ns) const;
  probe::BatchEncoder::Bytes finish(int rank, int64_t now_ns, probe::BatchEncoder&);

 private:
  struct Times {
    int64_t enter, begin, end;
  };
  Times times(Group, int rank, uint64_t op) const;
  wire::OpSignature signature(Group, uint64_t op) const;
  probe::InFlightMessage snapshot(Group, int rank, int64_t now_ns) const;
  void running_kernel(Group, int rank, int64_t now_ns, uint64_t op, probe::InFlightMessage&) const;
  void add_lane(probe::InFlightMessage&, Group, int member, const wire::LaneState&) const;
  void add_health(int rank, probe::BatchEncoder&) const;
  uint64_t monotonic_ns(int rank, int64_t now_ns) const;

  Layout layout_;
  std::vector<int> order_;
  std::vector<int64_t> phase_ns_;
  struct Sent {
    uint64_t op[std::size(groups)] = {};
    uint64_t batches = 0;
  };
  std::vector<Sent> sent_;
};

}  // namespace ccld::bench
