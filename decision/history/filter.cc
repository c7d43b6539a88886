#include "decision/history/filter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "decision/history/revision.h"
#include "decision/report/text_format.h"

namespace ccld::decision::history {
namespace {

using report::Json;

constexpr int64_t ms_per_s = 1000, ms_per_min = 60 * ms_per_s, ms_per_h = 60 * ms_per_min, ms_per_day = 24 * ms_per_h;
constexpr int64_t span_days_max = 36500;  // keeps the arithmetic in range

absl::Status refuse(const std::string& field, const std::string& text, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", text, "' is not valid: expected ", expected));
}

uint64_t id_of(const Json& verdict) { return report::number_of(verdict, "incident"); }
bool by_id(const Json& a, const Json& b) { return id_of(a) < id_of(b); }

// `sorted` by number, all of which fit and lie after `after`.
void cut(std::vector<Json>& sorted, const Filter& filter, std::optional<uint64_t>& next) {
  if (sorted.size() <= filter.limit) return;
  if (filter.after.has_value()) {
    sorted.resize(filter.limit);
    next = id_of(sorted.back());
  } else {
    sorted.erase(sorted.begin(), sorted.end() - static_cast<std::ptrdiff_t>(filter.limit));
  }
}

}  // namespace

absl::StatusOr<int64_t> parse_since(const std::string& text, int64_t now_ms) {
  struct Unit {
    char letter;
    int64_t ms;
  };
  constexpr Unit units[] = {{'s', ms_per_s}, {'m', ms_per_min}, {'h', ms_per_h}, {'d', ms_per_day}};
  for (const Unit& unit : units) {
    double count = 0;
    if (text.empty() || text.back() != unit.letter || !absl::SimpleAtod(text.substr(0, text.size() - 1), &count)) continue;
    const double ms = count * static_cast<double>(unit.ms);
    if (ms >= 0 && ms <= static_cast<double>(span_days_max * ms_per_day)) return now_ms - static_cast<int64_t>(ms);
  }
  for (const char* format : {"%Y-%m-%d%ET%H:%M:%E*S%Ez", "%Y-%m-%d%ET%H:%M:%E*S", "%Y-%m-%d%ET%H:%M", "%Y-%m-%d"}) {
    absl::Time time;
    std::string error;
    if (absl::ParseTime(format, text, absl::UTCTimeZone(), &time, &error)) return absl::ToUnixMillis(time);
  }
  return refuse("since", text, "a span (90s, 30m, 2h, 7d) or a time in UTC (2026-01-31, 2026-01-31T12:00, 2026-01-31T12:00:00Z)");
}

absl::StatusOr<Filter> parse_filter(const std::function<std::string(const std::string&)>& value, int64_t now_ms) {
  Filter filter;
  if (const std::string text = value("since"); !text.empty()) {
    const auto since = parse_since(text, now_ms);
    if (!since.ok()) return since.status();
    filter.since_ms = *since;
  }
  filter.job = value("job");
  filter.fault_class = absl::AsciiStrToUpper(value("class"));
  if (const std::string& c = filter.fault_class; !c.empty()) {
    constexpr const char* known[] = {"H1", "H2", "H3", "S1", "S2", "S3"};
    if (std::find(std::begin(known), std::end(known), c) == std::end(known)) {
      return refuse("class", value("class"), "H1, H2, H3, S1, S2 or S3");
    }
  }
  if (const std::string text = value("open"); !text.empty()) {
    if (!absl::SimpleAtob(text, &filter.open)) return refuse("open", text, "0 or 1");
  }
  if (const std::string text = value("limit"); !text.empty()) {
    if (!absl::SimpleAtoi(text, &filter.limit) || filter.limit == 0 || filter.limit > limit_max) {
      return refuse("limit", text, absl::StrCat("a number of incidents, 1 to ", limit_max));
    }
  }
  if (const std::string text = value("after"); !text.empty()) {
    uint64_t after = 0;
    if (!absl::SimpleAtoi(text, &after) || after > static_cast<uint64_t>(INT64_MAX)) {
      return refuse("after", text, "the number of an incident, or 0");
    }
    filter.after = after;
  }
  return filter;
}

bool matches(const Filter& filter, const Json& verdict) {
  const auto revision = revision_of(verdict);
  if (!revision.has_value()) return false;
  return (!filter.since_ms.has_value() || revision->open || revision->time_ms >= *filter.since_ms) &&
         (filter.job.empty() || revision->job == filter.job) &&
         (filter.fault_class.empty() || revision->fault_class == filter.fault_class) && (!filter.open || revision->open);
}

Page page_of(std::vector<Json> verdicts, const Filter& filter) {
  std::erase_if(verdicts, [&](const Json& v) { return !matches(filter, v); });
  std::sort(verdicts.begin(), verdicts.end(), by_id);
  Page page;
  page.matching = verdicts.size();
  if (filter.after.has_value()) std::erase_if(verdicts, [&](const Json& v) { return id_of(v) <= *filter.after; });
  page.incidents = std::move(verdicts);
  cut(page.incidents, filter, page.next);
  return page;
}

Page merged(Page stored, const std::vector<Json>& newer, const Filter& filter) {
  for (const Json& verdict : newer) {
    const auto old = std::find_if(stored.incidents.begin(), stored.incidents.end(), [&](const Json& v) { return id_of(v) == id_of(verdict); });
    const bool was_there = old != stored.incidents.end();
    if (was_there && report::number_of(*old, "revision") >= report::number_of(verdict, "revision")) continue;
    if (was_there) stored.incidents.erase(old);
    const bool fits = matches(filter, verdict);
    stored.matching += fits ? (was_there ? 0 : 1) : 0;
    stored.matching -= !fits && was_there ? 1 : 0;
    if (fits && (!filter.after.has_value() || id_of(verdict) > *filter.after)) stored.incidents.push_back(verdict);
  }
  std::sort(stored.incidents.begin(), stored.incidents.end(), by_id);
  // Beyond the page lies what the next one begins with.
  if (stored.next.has_value()) std::erase_if(stored.incidents, [&](const Json& v) { return id_of(v) > *stored.next; });
  cut(stored.incidents, filter, stored.next);
  return stored;
}

Json page_json(const Page& page, const std::string& time) {
  return {{"time", time},
          {"incidents", page.incidents},
          {"matching", page.matching},
          {"next", page.next.has_value() ? Json(*page.next) : Json(nullptr)}};
}

}  // namespace ccld::decision::history
