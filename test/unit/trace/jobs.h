// Telemetry of small jobs for tests of traces.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "decision/trace/directory.h"

namespace ccld::test {

using namespace decision;
using namespace decision::trace;

constexpr CommUid world{0xabc};

inline Batch batch_of(int32_t rank, Nanoseconds sent_monotonic_ns = 0) {
  Batch b;
  b.process.host = rank < 4 ? "node0" : "node1";
  b.process.boot_id = b.process.host;
  b.process.pid = 100u + static_cast<uint32_t>(rank);
  b.sent_monotonic_ns = static_cast<uint64_t>(sent_monotonic_ns);
  return b;
}

// A ring.
inline CommUp up_of(CommUid comm, int32_t rank, int ranks, int cuda_device) {
  CommUp up;
  up.comm = comm;
  up.rank = Rank{rank};
  up.rank_count = ranks;
  up.cuda_device = cuda_device;
  up.channels.push_back({.channel = 0, .ring_prev = (rank + ranks - 1) % ranks, .ring_next = (rank + 1) % ranks});
  return up;
}

inline Directory directory_of(const Settings& settings, int ranks) {
  Directory d(settings);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    Batch b = batch_of(rank);
    b.payloads.push_back(up_of(world, rank, ranks, rank % 4));
    d.see(b);
  }
  d.number();
  return d;
}

inline Round round_of(uint64_t op, uint64_t begin_ns, uint64_t end_ns, uint64_t enter_ns = 0, uint64_t launch_ns = 0) {
  Round r;
  r.op = OpSeq{op};
  r.signature.function = abi::Function::all_reduce;
  r.signature.datatype = abi::Datatype::float32;
  r.signature.count = 1024;
  r.begin_device_ns = begin_ns;
  r.end_device_ns = end_ns;
  r.enter_monotonic_ns = enter_ns;
  r.launch_monotonic_ns = launch_ns;
  return r;
}

}  // namespace ccld::test
