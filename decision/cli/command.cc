#include "decision/cli/command.h"

#include <cstdio>

namespace ccld::decision {

void fail(int exit_code, const std::string& line) {
  std::fprintf(stderr, "ccld: %s\n", line.c_str());
  throw CLI::RuntimeError(exit_code);
}

void end_unless_ok(const absl::Status& status) {
  if (status.ok()) return;
  fail(absl::IsInvalidArgument(status) ? exit_usage : exit_failed, std::string(status.message()));
}

}  // namespace ccld::decision
