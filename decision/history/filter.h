// Which incidents are asked for: the parameters of GET /v1/incidents and the flags of `ccld incidents`, which are the same.
// Pure. Errors: InvalidArgument, one line that names the field and what is expected. Threads: any.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision::history {

// Some 4 KB each: an answer of the default length stays below 1 MiB, the longest below 16 MiB.
constexpr uint64_t limit_default = 100;
constexpr uint64_t limit_max = 4000;

struct Filter {
  std::optional<int64_t> since_ms;  // since 1970: reported anything then or later, or still open
  std::string job, fault_class;     // empty: any
  bool open = false;                // neither resolved nor ended
  uint64_t limit = limit_default;
  std::optional<uint64_t> after;    // those with higher numbers, lowest first; nothing: the newest
};

// `value(name)`: what was given for since, job, class, open, limit and after; empty: nothing.
absl::StatusOr<Filter> parse_filter(const std::function<std::string(const std::string&)>& value, int64_t now_ms);

// "90s", "30m", "2h", "7d": that long ago; "2026-01-31", "2026-01-31T12:00", "2026-01-31T12:00:00Z": then, in UTC.
absl::StatusOr<int64_t> parse_since(const std::string& text, int64_t now_ms);

bool matches(const Filter&, const report::Json& verdict);  // but limit and after

struct Page {
  std::vector<report::Json> incidents;  // by number, lowest first
  uint64_t matching = 0;                // all that fit the filter, on every page
  std::optional<uint64_t> next;         // `after` of the page that follows; nothing: this was the last one
};

// Of verdicts in memory, in any order.
Page page_of(std::vector<report::Json> verdicts, const Filter&);
// The same page with what is newer in memory than in the database: each incident once, its newest revision.
Page merged(Page stored, const std::vector<report::Json>& newer, const Filter&);

// {"time", "incidents", "matching", "next"}
report::Json page_json(const Page&, const std::string& time);

}  // namespace ccld::decision::history
