#include "benchmarks/gpu/counters.h"

#include "benchmarks/gpu/frames.h"
#include "test/integration/operations/expected_steps.h"

namespace ccld::gpu {
namespace {

using operations_test::Channel;
using operations_test::ring_steps;
using operations_test::RingOperation;
using operations_test::Steps;

// Less than a slot, and many slots.
constexpr size_t small_count = 1031, large_count = 300000;
constexpr ncclDataType_t type = ncclFloat32;

RingOperation ring_operation(Collective collective) {
  switch (collective) {
    case Collective::all_gather: return RingOperation::all_gather;
    case Collective::reduce_scatter: return RingOperation::reduce_scatter;
    case Collective::broadcast: return RingOperation::broadcast;
    case Collective::reduce: return RingOperation::reduce;
    default: return RingOperation::all_reduce;
  }
}

std::vector<Call> ring_calls(int ranks) {
  const size_t large_part = large_count / 3;
  const int root = 1 % ranks;
  std::vector<Call> calls;
  for (const size_t count : {small_count, large_count}) {
    calls.push_back({Collective::all_reduce, type, ncclSum, count, 0});
    calls.push_back({Collective::all_gather, type, ncclSum, count == large_count ? large_part : count, 0});
    calls.push_back({Collective::reduce_scatter, type, ncclSum, count == large_count ? large_part : count, 0});
    calls.push_back({Collective::broadcast, type, ncclSum, count, root});
    calls.push_back({Collective::reduce, type, ncclSum, count, root});
  }
  return calls;
}

void run(Ranks& ranks, const Call& call) {
  ranks.issue(call);
  ranks.wait();
}

// Where each rank stands in the ring that NCCL has made, as its kernels show it.
std::vector<int> places_in_ring(Ranks& ranks, const Frames& frames) {
  std::vector<int> places(static_cast<size_t>(ranks.count()), -1);
  int rank = 0;
  for (int place = 0; place < ranks.count(); ++place) {
    if (places[static_cast<size_t>(rank)] != -1) throw std::runtime_error("the lanes of the ranks make no ring");
    places[static_cast<size_t>(rank)] = place;
    rank = frames.only_receiver(rank, 0);
    if (rank < 0 || rank >= ranks.count()) throw std::runtime_error("a rank of a ring does not send to one rank");
  }
  return places;
}

std::vector<CountersRow> ring_rows(Ranks& ranks, const Channel& channel, const std::string& folder) {
  run(ranks, {Collective::all_reduce, type, ncclSum, small_count, 0});
  const Frames frames(folder);
  const std::vector<int> places = places_in_ring(ranks, frames);
  std::vector<CountersRow> rows;
  for (const Call& call : ring_calls(ranks.count())) {
    run(ranks, call);
    for (const Rank& rank : ranks.all()) {
      const KernelCounts counts = frames.counts_of(rank.number, frames.newest_operation(rank.number));
      const Steps expected =
          ring_steps(channel, ring_operation(call.collective), places[static_cast<size_t>(rank.number)], ranks.count(),
                     call.count, bytes_of(type), places[static_cast<size_t>(call.root)]);
      rows.push_back({name_of(call.collective), call.count, rank.number, counts.sent, counts.received, expected.send,
                      expected.recv});
    }
  }
  return rows;
}

std::vector<CountersRow> tree_rows(Ranks& ranks, const Channel& channel, const std::string& folder) {
  std::vector<CountersRow> rows;
  run(ranks, {Collective::all_reduce, type, ncclSum, small_count, 0});
  const Frames frames(folder);
  for (const size_t count : {small_count, large_count}) {
    run(ranks, {Collective::all_reduce, type, ncclSum, count, 0});
    CountersRow row{name_of(Collective::all_reduce), count, -1, 0, 0, 0, 0};
    for (const Rank& rank : ranks.all()) {
      const KernelCounts counts = frames.counts_of(rank.number, frames.newest_operation(rank.number));
      row.sent += counts.sent;
      row.received += counts.received;
    }
    row.expected_sent = row.expected_received =
        operations_test::tree_all_reduce_steps(channel, ranks.count(), count, bytes_of(type));
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

std::vector<CountersRow> check_counters(Ranks& ranks, const std::string& algorithm, const std::string& protocol,
                                        size_t buffer_bytes, const std::string& folder) {
  const Channel channel{protocol, buffer_bytes};
  if (algorithm == "Ring") return ring_rows(ranks, channel, folder);
  if (algorithm == "Tree") return tree_rows(ranks, channel, folder);
  throw std::runtime_error("there is no expectation for the algorithm '" + algorithm + "'");
}

}  // namespace ccld::gpu
