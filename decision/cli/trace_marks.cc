#include "decision/cli/trace_marks.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "decision/report/bounded_json.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;
using report::member;
using report::text_of;
using trace::Args;
using trace::Mark;

constexpr char validation_schema[] = "ccld-validate/1";
// Times since 1970 are kept in nanoseconds, of which 64 bits hold 9.2e9 s.
constexpr int64_t unix_seconds_max = 9'000'000'000;

absl::Status error(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

std::string culprit_text(const Json& c) {
  const std::string host = text_of(c, "host");
  return absl::StrCat(host, host.empty() ? "" : " ", text_of(c, "component"));
}

void add_incident(const Json& i, Nanoseconds at_ns, std::vector<Mark>& marks) {
  const Json& culprits = member(i, "culprits");
  std::string who;
  for (const Json& c : culprits) absl::StrAppend(&who, who.empty() ? "" : "; ", culprit_text(c));
  const std::string name = absl::StrCat("validation: suspect: ", who.empty() ? text_of(i, "title") : who);
  const Args args{{"class", text_of(i, "class")},
                  {"title", text_of(i, "title")},
                  {"culprit", who},
                  {"next step", text_of(i, "next_step")}};
  marks.push_back({at_ns, name, args});
  for (const Json& c : culprits)
    if (const Json& gpu = member(c, "gpu"); gpu.is_number_unsigned())
      marks.push_back({at_ns, name, args, report::raw_text_of(c, "host"), gpu.get<int>()});
}

}  // namespace

absl::StatusOr<std::vector<Mark>> marks_of_validation(const std::string& text, int64_t realtime_minus_clock_ns) {
  const auto parsed = report::parse_bounded(text);
  if (!parsed.ok()) return parsed.status();
  const Json& document = *parsed;
  if (text_of(document, "schema") != validation_schema)
    return error("schema", absl::StrCat("the output of ccld-validate --json has '", validation_schema, "'"));
  absl::Time at;
  std::string why;
  if (!absl::ParseTime(absl::RFC3339_full, text_of(document, "time"), &at, &why))
    return error("time", why.empty() ? "is missing" : why);
  if (at < absl::UnixEpoch() || at > absl::FromUnixSeconds(unix_seconds_max)) return error("time", "is too far from now");
  if (!member(document, "incidents").is_array()) return error("incidents", "a list is expected");
  const Nanoseconds at_ns = absl::ToUnixNanos(at) - realtime_minus_clock_ns;
  std::vector<Mark> marks;
  for (const Json& i : member(document, "incidents")) add_incident(i, at_ns, marks);
  if (!marks.empty()) return marks;
  const std::string failure = text_of(document, "failure");
  marks.push_back({at_ns,
                   absl::StrCat("validation: ", text_of(document, "verdict"), failure.empty() ? "" : ": ", failure),
                   {{"checks", uint64_t{member(document, "rows").size()}},
                    {"ranks", uint64_t{member(document, "members").size()}}}});
  return marks;
}

absl::StatusOr<std::vector<Mark>> marks_of_actions(const std::string& text, int64_t realtime_minus_clock_ns) {
  const auto document = report::parse_bounded(text);
  if (!document.ok()) return document.status();
  const Json& done = member(*document, "done");
  if (!done.is_array()) return error("done", "a list is expected, as act --state writes it");
  std::vector<Mark> marks;
  for (size_t n = 0; n < done.size(); ++n) {
    const std::string where = absl::StrCat("done[", n, "].");
    const Json& time_s = member(done[n], "time_s");
    const double at_s = time_s.is_number() ? time_s.get<double>() : -1;
    if (!(at_s >= 0 && at_s <= static_cast<double>(unix_seconds_max)))
      return error(where + "time_s", "seconds since 1970 are expected");
    const std::vector<std::string> key = absl::StrSplit(text_of(done[n], "key"), '/');
    if (key.size() < 3) return error(where + "key", "run/incident/action is expected");
    const std::string &incident = key[key.size() - 2], &action = key.back();
    marks.push_back({std::llround(at_s * 1e9) - realtime_minus_clock_ns,
                     absl::StrCat("action: ", action, " because of incident ", incident),
                     {{"action", action}, {"incident", incident}, {"title", text_of(done[n], "title")}}});
  }
  return marks;
}

}  // namespace ccld::decision
