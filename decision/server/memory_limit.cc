#include "decision/server/memory_limit.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "decision/recording/recording_file.h"
#include "decision/server/control_group.h"

namespace ccld::decision::server {
namespace {

// The least of the control group and those above it; 0: none.
uint64_t control_group_bytes(const std::string& proc, const std::string& cgroup) {
  uint64_t least = 0;
  for (const std::string& line : control_group_lines("memory.max", proc, cgroup)) {
    uint64_t bytes = 0;
    // "max": no limit there.
    if (absl::SimpleAtoi(line, &bytes) && bytes > 0) least = least == 0 ? bytes : std::min(least, bytes);
  }
  return least;
}

}  // namespace

absl::StatusOr<uint64_t> memory_max_of(const std::string& text, const std::string& proc, const std::string& cgroup) {
  if (text == "none") return 0;
  // The rest is for what the kernel counts too: pages of the history's file, sockets.
  if (text == "auto") {
    const uint64_t bytes = control_group_bytes(proc, cgroup) / 10 * 9;
    return bytes < memory_max_least ? 0 : bytes;
  }
  const auto bytes = recording::parse_bytes(text);
  if (!bytes.ok()) return absl::InvalidArgumentError(absl::StrCat(bytes.status().message(), ", nor auto or none"));
  if (*bytes < memory_max_least)
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is less than ", memory_max_least >> 20, "M, which the service needs itself"));
  return *bytes;
}

uint64_t resident_bytes() {
  char text[128];
  // Open for good: where no descriptor is left there is a limit of memory all the same.
  static const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
  if (n <= 0) return 0;
  text[n] = '\0';
  char* second = nullptr;  // the first number is that of all pages
  std::strtoull(text, &second, 10);
  return std::strtoull(second, nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace ccld::decision::server
