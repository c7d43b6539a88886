// The processor time that a process has taken.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "test/support/files/folder.h"

namespace ccld::test {

// Of user and system, in seconds, so far.
inline double cpu_s(pid_t pid) {
  const std::string stat = content("/proc/" + std::to_string(pid) + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace ccld::test
