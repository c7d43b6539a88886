// Who sends telemetry in benchmarks/strangers/check_strangers.py.
//
//   ccld-bench-strangers job --endpoint E                     a real job; "stop 3" and "go" on standard input, answered
//   by
//                                                             the instant (CLOCK_REALTIME, ns)
//   ccld-bench-strangers announce --endpoint E --per-s N      strangers, until standard input ends; then it says how
//                                                             many batches it sent
#include <poll.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "benchmarks/strangers/announcer.h"
#include "benchmarks/strangers/real_job.h"

namespace ccld::bench {
namespace {

// Until that time, or until something is to be read.
bool has_input_until(int64_t until_ns) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int64_t left_ns = until_ns - monotonic_ns();
  const timespec left{left_ns > 0 ? left_ns / 1'000'000'000 : 0, left_ns > 0 ? left_ns % 1'000'000'000 : 0};
  return ppoll(&input, 1, &left, nullptr) > 0;
}

int run_job(const std::string& endpoint) {
  zmq::context_t context;
  RealJob job(context, endpoint);
  for (int64_t next_ns = monotonic_ns();; next_ns += RealJob::tick_ns) {
    while (has_input_until(next_ns)) {
      std::string line, word;
      if (!std::getline(std::cin, line)) return 0;
      std::istringstream words(line);
      int rank = RealJob::no_rank;
      words >> word;
      if (word == "stop" && !(words >> rank)) rank = 0;
      job.stop(rank);
      printf("%" PRId64 "\n", clock_ns(CLOCK_REALTIME));
      fflush(stdout);
    }
    job.tick();
  }
}

int run_strangers(const std::string& endpoint, const std::string& from, const std::vector<Claim>& kinds, int per_s,
                  int connections, uint64_t machines) {
  zmq::context_t context;
  std::vector<std::unique_ptr<Line>> lines;
  for (int i = 0; i < connections; ++i) lines.push_back(std::make_unique<Line>(context, endpoint, from));
  Announcer announcer(kinds, machines, 1);
  constexpr int64_t step_ns = 10'000'000;
  const int per_step = std::max(1, per_s / 100);
  size_t line = 0;
  for (int64_t next_ns = monotonic_ns(); !has_input_until(next_ns);
       next_ns = std::max(next_ns + step_ns, monotonic_ns() - step_ns))
    for (int i = 0; i < per_step; ++i) announcer.next(*lines[line++ % lines.size()]);
  printf("%" PRIu64 "\n", announcer.batches());
  return 0;
}

int run(int argc, char** argv) {
  CLI::App app("Sends the telemetry of a job, or of strangers.", "ccld-bench-strangers");
  app.require_subcommand(1);
  std::string endpoint, from;
  std::vector<std::string> kinds;
  int per_s = 1000, connections = 4;
  uint64_t machines = 1;
  CLI::App* job = app.add_subcommand("job", "a real job");
  CLI::App* announce = app.add_subcommand("announce", "strangers");
  for (CLI::App* each : {job, announce}) each->add_option("--endpoint", endpoint)->required();
  std::vector<std::string> known;
  for (const Claim c : claims) known.emplace_back(name(c));
  announce->add_option("--kind", kinds, "what they announce; all of it unless given")->check(CLI::IsMember(known));
  announce->add_option("--from", from, "their address");
  announce->add_option("--per-s", per_s, "claims a second")->check(CLI::Range(100, 1'000'000));
  announce->add_option("--connections", connections)->check(CLI::Range(1, 1000));
  announce->add_option("--machines", machines, "on which they say they are")->check(CLI::Range(1, 1'000'000'000));
  CLI11_PARSE(app, argc, argv);
  if (job->parsed()) return run_job(endpoint);
  std::vector<Claim> wished;
  for (const Claim c : claims)
    if (kinds.empty() || std::find(kinds.begin(), kinds.end(), name(c)) != kinds.end()) wished.push_back(c);
  return run_strangers(endpoint, from, wished, per_s, connections, machines);
}

}  // namespace
}  // namespace ccld::bench

int main(int argc, char** argv) { return ccld::bench::run(argc, argv); }
