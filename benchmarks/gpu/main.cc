// ccld-gpu-ranks RANKS: all ranks of a communicator in one process, which does what its standard input says.
//
// Each line is a command, and the answer to it is one line of JSON:
//
//   check COLLECTIVE TYPE REDUCTION COUNT SEND_OFFSET RECV_OFFSET ROOT
//       -> {"wrong": [...]}: values that differ from those computed here
//   digest COLLECTIVE TYPE REDUCTION COUNT ROOT SEED
//       -> {"digests": [...]}: of what each rank received
//   time COLLECTIVE BYTES OPERATIONS SAMPLES call|graph
//       -> {"us": [...]}: for each operation
//   counters ALGORITHM PROTOCOL BUFFER_BYTES
//       -> {"rows": [...]}: steps, from the probing frames
//   shown
//       -> {"times": true, "steps": true}: what the frame of rank 0 has of its newest kernels
//   registration
//       -> {"ways": [...], "frames": N}: how CUDA takes host memory, and how many ranks have a frame with a file
//   visibility BYTES OPERATIONS
//       -> {"looks": ..., "wrong": [...], "ends_us": [...], ...}: what a reader sees while the device writes
//   leaks WARM_UP CYCLES
//       -> {"before": {...}, "after": {...}}: what the process holds, before and after so many communicators more
//   abort
//       -> {"seconds": ...}: of aborting communicators whose kernels wait
//
// {"left_out": "..."}: the library was built without the function. {"error": "..."}: what went wrong; the process ends.
// The first line that it prints is {"ready": {...}} with the device.
//
// The library is whichever libnccl.so.2 the loader finds, so that one program runs all of them.
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "benchmarks/gpu/counters.h"
#include "benchmarks/gpu/digests.h"
#include "benchmarks/gpu/frames.h"
#include "benchmarks/gpu/lifetimes.h"
#include "benchmarks/gpu/ranks.h"
#include "benchmarks/gpu/registration.h"
#include "benchmarks/gpu/timing.h"
#include "benchmarks/gpu/visibility.h"
#include "test/integration/cpu_device/collectives.h"

namespace ccld::gpu {
namespace {

using Json = nlohmann::ordered_json;

Json check_values(Ranks& ranks, std::istream& words) {
  std::string collective, type, reduction;
  cpu_device_matrix::Case wanted;
  words >> collective >> type >> reduction >> wanted.count >> wanted.source_offset >> wanted.target_offset >>
      wanted.root;
  wanted.collective = parse_collective(collective);
  wanted.type = parse_type(type);
  wanted.reduction = parse_reduction(reduction);
  std::vector<cpu_device_matrix::Communicator> communicators;
  std::vector<std::unique_ptr<cpu_device_matrix::CaseRun>> runs;
  for (const Rank& rank : ranks.all()) communicators.push_back({rank.number, ranks.count(), rank.comm, rank.stream});
  ranks.each([&](const Rank& rank) {
    runs.push_back(
        std::make_unique<cpu_device_matrix::CaseRun>(wanted, communicators[static_cast<size_t>(rank.number)]));
    runs.back()->fill(1);
    CCLD_GPU_CHECK(cudaDeviceSynchronize());
  });
  ranks.group([&](const Rank& rank) { return runs[static_cast<size_t>(rank.number)]->submit(); });
  ranks.wait();
  Json wrong = Json::array();
  ranks.each([&](const Rank& rank) {
    const std::string problem = runs[static_cast<size_t>(rank.number)]->check();
    if (!problem.empty()) wrong.push_back("rank " + std::to_string(rank.number) + ": " + problem);
  });
  return {{"wrong", wrong}};
}

Json digest_values(Ranks& ranks, std::istream& words) {
  std::string collective, type, reduction;
  Call call;
  uint64_t seed = 0;
  words >> collective >> type >> reduction >> call.count >> call.root >> seed;
  call.collective = parse_collective(collective);
  call.type = parse_type(type);
  call.reduction = parse_reduction(reduction);
  return {{"digests", digests_of(ranks, call, seed)}};
}

std::string frames_folder() {
  const char* folder = getenv("NCCL_PROBE_FRAMES_DIR");
  return folder != nullptr ? folder : "/dev/shm";
}

Json time_operations(Ranks& ranks, std::istream& words) {
  std::string collective, launch;
  size_t bytes = 0;
  int operations = 0, samples = 0;
  words >> collective >> bytes >> operations >> samples >> launch;
  if (operations < 1 || samples < 1 || (launch != "call" && launch != "graph")) {
    throw std::runtime_error("time COLLECTIVE BYTES OPERATIONS SAMPLES call|graph");
  }
  const Call call = call_of_bytes(parse_collective(collective), bytes, ranks.count());
  const std::vector<double> times_us =
      time_us(ranks, call, operations, samples, launch == "graph" ? Launch::graph : Launch::call);
  return {{"us", times_us}, {"ran_as", Frames(frames_folder()).newest_ran_as(0)}};
}

Json count_steps(Ranks& ranks, std::istream& words) {
  std::string algorithm, protocol;
  size_t buffer_bytes = 0;
  words >> algorithm >> protocol >> buffer_bytes;
  Json rows = Json::array();
  for (const CountersRow& row : check_counters(ranks, algorithm, protocol, buffer_bytes, frames_folder())) {
    rows.push_back({{"operation", row.operation},
                    {"count", row.count},
                    {"rank", row.rank},
                    {"sent", row.sent},
                    {"received", row.received},
                    {"expected_sent", row.expected_sent},
                    {"expected_received", row.expected_received},
                    {"right", row.right()}});
  }
  return {{"rows", rows}};
}

Json show() {
  const Shown shown = Frames(frames_folder()).shown(0);
  return {{"times", shown.times}, {"steps", shown.steps}};
}

Json register_memory() {
  Json ways = Json::array();
  for (const MemoryWay& way : try_memory(frames_folder())) {
    ways.push_back({{"name", way.name},
                    {"works", way.works},
                    {"refusal", way.refusal},
                    {"taken_us", way.taken_us},
                    {"given_back_us", way.given_back_us}});
  }
  return {{"ways", ways}, {"frames", Frames(frames_folder()).count()}};
}

Json look_while_running(Ranks& ranks, std::istream& words) {
  size_t bytes = 0;
  int operations = 0;
  words >> bytes >> operations;
  if (operations < 1) throw std::runtime_error("visibility BYTES OPERATIONS");
  const Visibility seen =
      check_visibility(ranks, call_of_bytes(Collective::all_reduce, bytes, ranks.count()), operations, frames_folder());
  return {{"looks", seen.looks},
          {"refused", seen.refused},
          {"accepted", seen.accepted},
          {"running", seen.running},
          {"skipped", seen.skipped},
          {"wrong", seen.wrong},
          {"wrong_total", seen.wrong_total},
          {"operations", seen.operations},
          {"ends_us", seen.ends_us}};
}

Json to_json(const Held& held) {
  return {{"descriptors", held.descriptors},
          {"frame_mappings", held.frame_mappings},
          {"frame_files", held.frame_files},
          {"resident_bytes", held.resident_bytes},
          {"device_free_bytes", held.device_free_bytes}};
}

Json look_for_leaks(const Ranks& ranks, std::istream& words) {
  int warm_up = 0, cycles = 0;
  words >> warm_up >> cycles;
  if (cycles < 1) throw std::runtime_error("leaks WARM_UP CYCLES");
  use_and_end(ranks.count(), warm_up);
  const Held before = held_now(frames_folder());
  use_and_end(ranks.count(), cycles);
  return {{"before", to_json(before)}, {"after", to_json(held_now(frames_folder()))}};
}

Json obey(Ranks& ranks, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  words >> command;
  Json answer;
  try {
    if (command == "check")
      answer = check_values(ranks, words);
    else if (command == "digest")
      answer = digest_values(ranks, words);
    else if (command == "time")
      answer = time_operations(ranks, words);
    else if (command == "counters")
      answer = count_steps(ranks, words);
    else if (command == "shown")
      answer = show();
    else if (command == "registration")
      answer = register_memory();
    else if (command == "visibility")
      answer = look_while_running(ranks, words);
    else if (command == "leaks")
      answer = look_for_leaks(ranks, words);
    else if (command == "abort")
      answer = {{"seconds", abort_while_waiting(ranks.count())}};
    else
      throw std::runtime_error("there is no command '" + command + "'");
  } catch (const LeftOut& left_out) {
    return {{"left_out", left_out.what()}};
  }
  return answer;
}

Json description(const Ranks& ranks) {
  cudaDeviceProp properties;
  int driver = 0, runtime = 0, nccl = 0;
  CCLD_GPU_CHECK(cudaGetDeviceProperties(&properties, 0));
  CCLD_GPU_CHECK(cudaDriverGetVersion(&driver));
  CCLD_GPU_CHECK(cudaRuntimeGetVersion(&runtime));
  CCLD_GPU_CHECK(ncclGetVersion(&nccl));
  return {{"ranks", ranks.count()}, {"devices", ranks.devices()}, {"device", properties.name},
          {"cuda_driver", driver},  {"cuda_runtime", runtime},    {"nccl", nccl}};
}

void say(const Json& answer) { std::cout << answer.dump() << std::endl; }

}  // namespace
}  // namespace ccld::gpu

int main(int argc, char** argv) {
  using namespace ccld::gpu;
  const int count = argc == 2 ? atoi(argv[1]) : 0;
  if (count < 1 || count > 16) {
    std::cerr << "usage: ccld-gpu-ranks RANKS     (1 to 16; commands: benchmarks/gpu/main.cc)\n";
    return 2;
  }
  try {
    Ranks ranks(count);
    say({{"ready", description(ranks)}});
    for (std::string line; std::getline(std::cin, line);) say(obey(ranks, line));
    ranks.end();
    return 0;
  } catch (const std::exception& error) {
    say({{"error", error.what()}});
  }
  // Threads may be stuck in NCCL or the driver, and then tearing down waits for ever.
  fflush(nullptr);
  _exit(1);
}
