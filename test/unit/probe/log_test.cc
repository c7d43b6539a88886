#include "probe/counters/log.h"

#include <vector>

#include <catch2/catch.hpp>

namespace ccld::probe {
namespace {

std::vector<std::string> lines;

TEST_CASE("each kind of trouble is logged once and counted always") {
  lines.clear();
  log_set([](LogLevel level, const char* line) {
    lines.push_back((level == LogLevel::warning ? "W " : "I ") + std::string(line));
  });
  const uint64_t before = warning_count(Warning::other);
  CHECK(warn_once(Warning::other, "first") == (before == 0));
  CHECK_FALSE(warn_once(Warning::other, "second"));
  CHECK(warning_count(Warning::other) == before + 2);
  CHECK(lines == std::vector<std::string>{"W first"});
  log_set(nullptr);
  log_line(LogLevel::info, "nobody listens");
  CHECK(lines.size() == 1);
}

}  // namespace
}  // namespace ccld::probe
