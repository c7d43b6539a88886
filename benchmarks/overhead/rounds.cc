// How many rounds of many short operations are reported: real frames, the real diagnostic thread, a real telemetry socket.
//
// Usage: ccld-bench-rounds COMMUNICATORS OPERATIONS_PER_SECOND SECONDS        prints one JSON object
//
// One thread writes what NCCL's hooks and its kernels would: on each communicator so many operations a second, each
// running for a tenth of its period. It stands in for NCCL on a GPU, because the CPU device needs more than two processors
// for 16 communicators with 1000 operations a second. A thread of this process takes in the telemetry and counts rounds
// with a begin and an end; what was lapped is read from the frames. Both together must be all operations.
#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/overhead/frames.h"
#include "probe/device/frame_writer_device.h"
#include "schemas/abi/frame.h"
#include "test/integration/operations/telemetry_sink.h"

namespace ccld::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the probe waits before it sends what it has.
constexpr auto settling_time = std::chrono::milliseconds(2500);

uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

struct Communicator {
  probe::Comm* comm;
  abi::DeviceChannel* channel;
  uint32_t run = 0;
};

std::vector<Communicator> make_communicators(int count) {
  std::vector<Communicator> made;
  for (int i = 0; i < count; ++i) {
    probe::Comm* const comm = make_communicator(100 + uint64_t(i));
    if (comm == nullptr) return {};
    char* const memory = static_cast<char*>(probe::frame_memory(comm));
    made.push_back({comm, reinterpret_cast<abi::DeviceChannel*>(memory + probe::device_channels_offset(comm)), 0});
  }
  return made;
}

// Runs all operations; returns how many there were and how long it took.
std::pair<uint64_t, double> write(std::vector<Communicator>& all, int per_second, int seconds) {
  const auto period = std::chrono::nanoseconds(1000000000 / per_second);
  const auto begin = Clock::now();
  auto due = begin;
  uint64_t operations = 0;
  for (int64_t i = 0; i < int64_t{per_second} * seconds; ++i) {
    due += period;
    std::this_thread::sleep_until(due);
    for (Communicator& c : all) {
      const uint32_t token = run_operation(c.comm);
      device::round_begins(c.channel, ++c.run, token, now_ns());
      ++operations;
    }
    std::this_thread::sleep_until(due + period / 10);
    for (Communicator& c : all) device::round_ends(c.channel, c.run, 0, 2, 2, now_ns());
  }
  return {operations, std::chrono::duration<double>(Clock::now() - begin).count()};
}

int run(int communicators, int per_second, int seconds) {
  operations_test::TelemetrySink sink;
  setenv("NCCL_PROBE_ENDPOINT", sink.endpoint().c_str(), 1);
  std::vector<Communicator> all = make_communicators(communicators);
  if (all.empty()) {
    fprintf(stderr, "ccld-bench-rounds: no frame could be made\n");
    return 1;
  }
  std::this_thread::sleep_for(settling_time);  // the connection is made
  const auto [operations, took_s] = write(all, per_second, seconds);
  std::this_thread::sleep_for(settling_time);
  uint64_t lapped = 0;
  for (Communicator& c : all) {
    probe::comm_end(c.comm, abi::CommState::destroyed);
    lapped += static_cast<abi::FrameHeader*>(probe::frame_memory(c.comm))->agent.lapped_rounds;
  }
  std::this_thread::sleep_for(settling_time);
  sink.stop();
  uint64_t reported = 0, without_times = 0;
  for (const auto& [key, comm] : sink.comms) {
    for (const auto& round : comm.rounds) {
      const bool timed = round.begin_device_ns != 0 && round.end_device_ns > round.begin_device_ns;
      ++(timed ? reported : without_times);
    }
  }
  printf("{\"communicators\": %d, \"operations\": %llu, \"operations_per_s\": %.0f, \"reported\": %llu, \"without_times\": %llu, "
         "\"lapped\": %llu, \"dropped_batches\": %llu}\n",
         communicators, static_cast<unsigned long long>(operations), double(operations) / took_s,
         static_cast<unsigned long long>(reported), static_cast<unsigned long long>(without_times),
         static_cast<unsigned long long>(lapped), static_cast<unsigned long long>(sink.dropped_batches));
  for (Communicator& c : all) probe::comm_release(c.comm);
  return 0;
}

}  // namespace
}  // namespace ccld::bench

int main(int argc, char** argv) {
  const int communicators = argc == 4 ? atoi(argv[1]) : 0;
  const int per_second = argc == 4 ? atoi(argv[2]) : 0;
  const int seconds = argc == 4 ? atoi(argv[3]) : 0;
  if (communicators < 1 || communicators > 64 || per_second < 1 || per_second > 100000 || seconds < 1) {
    fprintf(stderr, "usage: ccld-bench-rounds COMMUNICATORS OPERATIONS_PER_SECOND SECONDS     (1 to 64, 1 to 100000, 1 or more)\n");
    return 2;
  }
  return ccld::bench::run(communicators, per_second, seconds);
}
