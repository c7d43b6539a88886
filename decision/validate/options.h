// The command line of `ccld-validate`, and what launchers say in the environment about a rank's place.
// Errors: InvalidArgument names the option or the variable. Threads: any.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/validate/thresholds.h"

namespace ccld::decision::validate {

struct Options {
  int ranks = 0, rank = -1;  // 0 and -1: not given
  int gpu = -1;              // CUDA device; -1: by the local rank
  int local_rank = -1;
  std::string meet;  // "host:port" of rank 0
  double timeout_s = 60;
  int repetitions = 10;
  std::string job = "validate";
  std::string past, save;  // files; empty: none
  bool json = false, all_rows = false;
  Thresholds thresholds;
  std::string bytes;  // of a link's message; empty: as the device is
  // Starting ranks on hosts.
  std::vector<std::string> hosts;
  int gpus = 0;  // of each host; 0: as many as this one has
  std::string ssh = "ssh";
  bool print = false;
  int port = 29610;
};

// Ends with the exit status where there is nothing left to do (--help), else without one.
struct Parsed {
  Options options;
  std::optional<int> exit;
};
Parsed parse_options(int argc, char** argv, const std::string& version);

// Fills what the command line left open: Slurm, torchrun, Open MPI. `variable`: empty where it is not set.
absl::Status add_place(Options&, const std::function<std::string(const char*)>& variable);
// The first host of Slurm's "node[003-010,12],other": "node003".
std::string first_host(const std::string& list);
// "64M", "256K", "1000". Errors: InvalidArgument.
absl::StatusOr<size_t> parse_bytes(const std::string& text);

}  // namespace ccld::decision::validate
