// Nanoseconds that the probe adds to a call of NCCL: what the hooks call for an operation, on a real mapped frame.
//
// Usage: ccld-bench-host-path [BATCHES]        prints one JSON object
//
// Each row is the time of one operation, from batches of 1000: median, lowest and highest over the batches. No service
// listens; the diagnostic thread runs and reads the frame as it always does. `clock` is one reading of the clock, of which
// an operation needs two.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "benchmarks/overhead/frames.h"
#include "schemas/abi/frame.h"

namespace ccld::bench {
namespace {

constexpr int operations_per_batch = 1000;
constexpr int group_size = 8;

struct Row {
  const char* name;
  double median_ns, lowest_ns, highest_ns;
};

template <typename Work>
Row measure(const char* name, int batches, int operations, Work work) {
  std::vector<double> times;
  for (int i = -batches / 10; i < batches; ++i) {  // the first ones warm up
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    if (i >= 0) times.push_back(took.count() / operations);
  }
  std::sort(times.begin(), times.end());
  return {name, times[times.size() / 2], times.front(), times.back()};
}

void run_call(probe::Comm* comm, abi::Direction direction) {
  const uint64_t call = probe::p2p_entered(comm, {direction, abi::Datatype::float32, 0, 1, 1024});
  const probe::Plan plan = probe::plan_begins(comm, false);
  probe::p2p_planned(comm, call, plan, {abi::Algorithm::unknown, abi::Protocol::simple, 1, 1, abi::signal_times});
  probe::plan_launched(comm, plan, true);
}

// Several operations that one kernel carries.
void run_group(probe::Comm* comm) {
  uint64_t op_seqs[group_size];
  for (uint64_t& op_seq : op_seqs) {
    op_seq = probe::operation_entered(
        comm, {abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, abi::op_grouped, -1, 256});
  }
  const probe::Plan plan = probe::plan_begins(comm, false);
  for (uint64_t op_seq : op_seqs) {
    probe::operation_planned(comm, op_seq, plan,
                             {abi::Algorithm::ring, abi::Protocol::ll, 1, 1, abi::signal_times | abi::signal_steps});
  }
  probe::plan_launched(comm, plan, true);
}

int run(int batches) {
  probe::Comm* const comm = make_communicator(1);
  if (comm == nullptr) {
    fprintf(stderr, "ccld-bench-host-path: no frame could be made\n");
    return 1;
  }
  const Row rows[] = {
      measure("collective", batches, operations_per_batch,
              [&] {
                for (int i = 0; i < operations_per_batch; ++i) run_operation(comm);
              }),
      measure("point_to_point", batches, operations_per_batch,
              [&] {
                for (int i = 0; i < operations_per_batch; ++i)
                  run_call(comm, i % 2 == 0 ? abi::Direction::send : abi::Direction::recv);
              }),
      measure("collective_in_group_of_8", batches, operations_per_batch,
              [&] {
                for (int i = 0; i < operations_per_batch / group_size; ++i) run_group(comm);
              }),
      measure("clock", batches, operations_per_batch,
              [&] {
                timespec now;
                for (int i = 0; i < operations_per_batch; ++i) clock_gettime(CLOCK_MONOTONIC, &now);
              }),
  };
  printf("{\"frame_bytes\": %zu, \"frame_channels\": %u, \"batches\": %d, \"rows\": [", probe::frame_size(comm), frame_channels,
         batches);
  const char* comma = "";
  for (const Row& row : rows) {
    printf("%s{\"call\": \"%s\", \"ns\": %.1f, \"lowest_ns\": %.1f, \"highest_ns\": %.1f}", comma, row.name, row.median_ns,
           row.lowest_ns, row.highest_ns);
    comma = ", ";
  }
  printf("]}\n");
  probe::comm_end(comm, abi::CommState::destroyed);
  probe::comm_release(comm);
  return 0;
}

}  // namespace
}  // namespace ccld::bench

int main(int argc, char** argv) {
  const int batches = argc > 1 ? atoi(argv[1]) : 400;
  if (argc > 2 || batches < 10) {
    fprintf(stderr, "usage: ccld-bench-host-path [BATCHES]     (at least 10)\n");
    return 2;
  }
  return ccld::bench::run(batches);
}
