// Starts a rank for each GPU of several hosts, with ssh or whatever is given in its place, and waits for them.
//
// Contract
//   Ranks are numbered host by host; rank 0 is on the first one and prints the result. NCCL's variables,
//   LD_LIBRARY_PATH and those of the CPU device go along. When a host's command ends with what no rank ends with, all
//   are ended.
// Errors: Unavailable names the host. Threads: one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/validate/options.h"

namespace ccld::decision::validate {

// One word for a shell, whatever is in it.
std::string quoted(const std::string& word);
// What is to be run on the host of each rank. `program` and `more`: with which options besides those of a rank's place.
std::vector<std::pair<std::string, std::string>> rank_commands(const Options&, const std::string& program,
                                                               const std::vector<std::string>& more,
                                                               const std::vector<std::string>& environment);
// The words of a command line without the options that only say where ranks are.
std::vector<std::string> without_hosts(int argc, char** argv);

// The exit status of rank 0; exit_healthy after --print.
absl::StatusOr<int> launch_on_hosts(const Options&, int argc, char** argv);

}  // namespace ccld::decision::validate
