#include "decision/cli/status_check.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::has;
using report::Json;
using report::member;
using report::number_of;

// What follows a bar is read as numbers.
std::string one_line(const std::string& text) {
  std::string out = report::printable(text);
  std::replace(out.begin(), out.end(), '|', '/');
  return out;
}

// What the first incident is that somebody should be called for, in the words of its title.
std::string what_is_open(const Json& document) {
  for (const Json& i : member(document, "incidents"))
    if (!member(i, "silenced").is_boolean() || !i.at("silenced").get<bool>())
      return absl::StrCat("; ", report::text_of(i, "incident"), ": ", report::text_of(i, "kind"), ": ",
                          report::text_of(i, "title"));
  return "";
}

std::string troubled_jobs(const Json& document) {
  constexpr size_t named_max = 3;
  std::vector<std::string> names;
  const Json& jobs = member(document, "jobs");
  for (const Json& job : jobs.is_array() ? jobs : Json::array({document})) {
    if (number_of(job, "incidents_open") == 0) continue;
    if (names.size() == named_max) {
      names.push_back("...");
      break;
    }
    names.push_back(report::text_of(job, "job"));
  }
  if (names.empty()) return "";
  return absl::StrCat(names.size() == 1 ? ", job " : ", jobs ", absl::StrJoin(names, ", "));
}

}  // namespace

CheckResult check_of(const Json& document) {
  // What is silenced is no reason to call anybody.
  const uint64_t all = number_of(document, "incidents_open"), silenced = std::min(all, number_of(document, "incidents_silenced"));
  const uint64_t open = all - silenced;
  const uint64_t confirmed_all = number_of(document, "incidents_confirmed");
  const uint64_t confirmed = std::min(open, confirmed_all - std::min(confirmed_all, number_of(document, "incidents_silenced_confirmed")));
  const uint64_t suspected = open - confirmed, acknowledged = number_of(document, "incidents_acknowledged");
  const uint64_t processes = static_cast<uint64_t>(report::integer_of(document.at("process_count")));
  CheckResult result;
  result.exit_code = confirmed > 0 ? exit_check_critical : suspected > 0 ? exit_check_warning : exit_check_ok;
  const char* const word = confirmed > 0 ? "CRITICAL" : suspected > 0 ? "WARNING" : "OK";
  const std::string quiet = silenced == 0 ? "" : absl::StrCat(", ", report::grouped(silenced), " silenced");
  const std::string what =
      open == 0
          ? absl::StrCat("no open incident", quiet, ", ", report::count_text(processes, "process", "processes"))
          : absl::StrCat(report::count_text(confirmed, "confirmed incident", "confirmed incidents"), ", ",
                         report::grouped(suspected), " suspected",
                         acknowledged == 0 ? "" : absl::StrCat(", ", report::grouped(acknowledged), " acknowledged"),
                         quiet, troubled_jobs(document), what_is_open(document), " (ccld explain)");
  // label=value;warn;crit;min;max
  result.line = absl::StrCat("CCLD ", word, ": ", one_line(what), " | confirmed=", confirmed, ";;0;0 suspected=", suspected,
                             ";0;;0 processes=", processes, ";;;0 silent=", number_of(document, "silent_process_count"),
                             ";;;0;", processes, " communicators=", number_of(document, "communicator_count"), ";;;0");
  return result;
}

CheckResult check_unknown(const std::string& why) { return {exit_check_unknown, absl::StrCat("CCLD UNKNOWN: ", one_line(why))}; }

}  // namespace ccld::decision
