// `ccld validate --in-job`: tests the hardware of a communicator while its job runs. This process coordinates: the
// service passes its address on to the ranks, which connect to it, hold before the same collective, measure, and go on.
// Errors: one line and an exit code of ccld-validate. Threads: one.
#pragma once

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "decision/cli/service_client.h"

namespace ccld::decision {

struct InJobValues {
  bool wanted = false;
  std::string communicator;  // 16 hexadecimal digits
  std::string meet;          // host:port, where the ranks reach this process; empty: this host's name
  double hold_s = 5;
  double within_s = 60;  // for a rank to call the collective before which it holds
  bool json = false, all_rows = false;
  std::vector<std::string> thresholds;
  std::string past, save;  // files; empty: none
};

void add_in_job_options(CLI::App& command, InJobValues&);
// Prints the result; returns the exit code.
int validate_in_job(const ServiceAddress&, const InJobValues&);

}  // namespace ccld::decision
