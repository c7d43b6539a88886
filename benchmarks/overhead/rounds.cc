// How many rounds of many short operations are reported: real frames, the real diagnostic thread, a real telemetry
// socket.
//
// Usage: ccld-bench-rounds COMMUNICATORS OPERATIONS_PER_SECOND SECONDS        prints one JSON object
//
// One thread writes what NCCL's hooks and its kernels would: on each communicator so many operations a second, each
// running for a tenth of its period by the clock of its GPU. It stands in for NCCL on a GPU, because the CPU device
// needs more than two processors for 16 communicators with 1000 operations a second. Operations that come faster than a
// thread can be woken for each are written in bursts of a millisecond. A thread of this process takes in the telemetry
// and counts rounds with a begin and an end; what was lapped is read from the frames. Both together must be all
// operations, and what the rounds and the sums of the frames say of steps and of time must be what was written.
#include <algorithm>
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
// A thread is not woken more precisely than that.
constexpr auto burst_time = std::chrono::milliseconds(1);
constexpr uint32_t steps_per_operation = 2;

struct Communicator {
  probe::Comm* comm;
  abi::DeviceChannel* channel;
  uint32_t run = 0;
  uint32_t busy_ns_total = 0;
};

std::vector<Communicator> make_communicators(int count) {
  std::vector<Communicator> made;
  for (int i = 0; i < count; ++i) {
    probe::Comm* const comm = make_communicator(100 + uint64_t(i));
    if (comm == nullptr) return {};
    char* const memory = static_cast<char*>(probe::frame_memory(comm));
    made.push_back({comm, reinterpret_cast<abi::DeviceChannel*>(memory + probe::device_channels_offset(comm)), 0, 0});
  }
  return made;
}

void begin(Communicator& c, uint64_t device_ns) {
  const uint32_t token = run_operation(c.comm);
  device::round_begins(c.channel, ++c.run, token, device_ns);
}

void end(Communicator& c, uint64_t busy_ns) {
  const uint32_t steps = c.run * steps_per_operation;
  c.busy_ns_total += static_cast<uint32_t>(busy_ns);
  device::round_ends(c.channel, c.run, 0, steps, steps, c.busy_ns_total, busy_ns);
}

struct Written {
  uint64_t operations = 0;
  uint64_t busy_ns = 0;
  double took_s = 0;
};

// Runs all operations.
Written write(std::vector<Communicator>& all, int per_second, int seconds) {
  const auto period = std::chrono::nanoseconds(1000000000 / per_second);
  const uint64_t busy_ns = static_cast<uint64_t>((period / 10).count());
  const int64_t burst = std::max<int64_t>(1, burst_time / period);
  const auto started = Clock::now();
  Written written;
  auto due = started;
  uint64_t device_ns = 1000000;
  for (int64_t i = 0; i < int64_t{per_second} * seconds; i += burst) {
    std::this_thread::sleep_until(due);
    for (int64_t k = 0; k < burst; ++k, due += period, device_ns += static_cast<uint64_t>(period.count())) {
      for (Communicator& c : all) begin(c, device_ns);
      if (burst == 1) std::this_thread::sleep_until(due + period / 10);
      for (Communicator& c : all) end(c, busy_ns);
      written.operations += all.size();
      written.busy_ns += all.size() * busy_ns;
    }
  }
  written.took_s = std::chrono::duration<double>(Clock::now() - started).count();
  return written;
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
  const Written written = write(all, per_second, seconds);
  std::this_thread::sleep_for(settling_time);
  uint64_t lapped = 0, summed = 0, busy_ns = 0, steps = 0;
  for (Communicator& c : all) {
    probe::comm_end(c.comm, abi::CommState::destroyed);
    const abi::AgentLine& line = static_cast<abi::FrameHeader*>(probe::frame_memory(c.comm))->agent;
    lapped += line.lapped_rounds;
    summed += line.summed_kernels;
    busy_ns += line.summed_busy_ns;
    steps += line.summed_send_steps;
  }
  std::this_thread::sleep_for(settling_time);
  sink.stop();
  uint64_t reported = 0, counted = 0, without_times = 0;
  for (const auto& [key, comm] : sink.comms) {
    for (const auto& round : comm.rounds) {
      const bool timed = round.begin_device_ns != 0 && round.end_device_ns > round.begin_device_ns;
      ++(timed ? reported : without_times);
      if (!round.has(wire::RoundFlags::counts_valid)) continue;
      ++counted;
      busy_ns += round.end_device_ns - round.begin_device_ns;
      steps += round.send_steps;
    }
  }
  const bool all_summed = counted + summed == written.operations && busy_ns == written.busy_ns &&
                          steps == written.operations * steps_per_operation;
  using Number = unsigned long long;
  printf(
      "{\"communicators\": %d, \"operations\": %llu, \"operations_per_s\": %.0f, \"reported\": %llu, "
      "\"without_times\": %llu, \"lapped\": %llu, \"counted\": %llu, \"summed\": %llu, \"nothing_lost\": %s, "
      "\"dropped_batches\": %llu}\n",
      communicators, Number{written.operations}, double(written.operations) / written.took_s, Number{reported},
      Number{without_times}, Number{lapped}, Number{counted}, Number{summed}, all_summed ? "true" : "false",
      Number{sink.dropped_batches});
  for (Communicator& c : all) probe::comm_release(c.comm);
  return 0;
}

}  // namespace
}  // namespace ccld::bench

int main(int argc, char** argv) {
  const int communicators = argc == 4 ? atoi(argv[1]) : 0;
  const int per_second = argc == 4 ? atoi(argv[2]) : 0;
  const int seconds = argc == 4 ? atoi(argv[3]) : 0;
  if (communicators < 1 || communicators > 64 || per_second < 1 || per_second > 1000000 || seconds < 1) {
    fprintf(stderr,
            "usage: ccld-bench-rounds COMMUNICATORS OPERATIONS_PER_SECOND SECONDS     (1 to 64, 1 to 1000000, 1 or "
            "more)\n");
    return 2;
  }
  return ccld::bench::run(communicators, per_second, seconds);
}
