// What a process of the service has open and takes.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>

#include "test/support/files/folder.h"

namespace ccld::test {

struct Taken {
  size_t files = 0, threads = 0, rss_kb = 0;
  int64_t start_ms = 0;
  void at_least(const Taken& other) {
    files = std::max(files, other.files), threads = std::max(threads, other.threads),
    rss_kb = std::max(rss_kb, other.rss_kb);
    start_ms = std::max(start_ms, other.start_ms);
  }
};

inline Taken taken_by(pid_t pid) {
  const std::string process = "/proc/" + std::to_string(pid);
  const auto entries = [&process](const char* folder) {
    const std::filesystem::directory_iterator all(process + folder);
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  };
  std::istringstream status(content(process + "/status"));
  Taken taken{entries("/fd"), entries("/task"), 0};
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> taken.rss_kb;
  }
  return taken;
}

}  // namespace ccld::test
