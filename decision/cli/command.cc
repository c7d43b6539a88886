#include "decision/cli/command.h"

#include <cstdio>

#include "decision/report/text_format.h"

namespace ccld::decision {

void say(const std::string& line) {
  if (!line.empty()) std::fprintf(stderr, "ccld: %s\n", report::printable(line).c_str());
}

void fail(int exit_code, const std::string& line) {
  say(line);
  throw CLI::RuntimeError(exit_code);
}

void end_unless_ok(const absl::Status& status) {
  if (status.ok()) return;
  fail(absl::IsInvalidArgument(status) ? exit_usage : exit_failed, std::string(status.message()));
}

}  // namespace ccld::decision
