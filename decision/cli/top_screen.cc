#include "decision/cli/top_screen.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "decision/report/acknowledgement.h"
#include "decision/report/status_text.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"

namespace ccld::decision {
namespace {

using report::has;
using report::Json;
using report::member;
using report::text_of;

std::string culprit_text(const Json& incident) {
  const Json& culprits = member(incident, "culprits");
  if (culprits.empty()) return "not singled out";
  // Hangs have no shares and keep their order.
  const Json& worst = *std::max_element(culprits.begin(), culprits.end(), [](const Json& a, const Json& b) {
    return report::real_of(a, "lost_time_share") < report::real_of(b, "lost_time_share");
  });
  std::string out = absl::StrCat(report::culprit_rank(incident, worst), " ", text_of(worst, "component", ""), " on ", text_of(worst, "host", "?"));
  if (culprits.size() > 1) absl::StrAppend(&out, " and ", culprits.size() - 1, " more");
  return out;
}

// Open ones, the confirmed first, then the newest.
std::vector<const Json*> open_incidents(const Json& document) {
  std::vector<const Json*> open;
  for (const Json& i : member(document, "incidents"))
    if (const std::string state = text_of(i, "state"); state == "confirmed" || state == "suspected") open.push_back(&i);
  std::reverse(open.begin(), open.end());
  std::stable_sort(open.begin(), open.end(),
                   [](const Json* a, const Json* b) { return text_of(*a, "state") < text_of(*b, "state"); });
  return open;
}

void add_lines(std::vector<std::string>& lines, const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) lines.emplace_back(line);
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
}

}  // namespace

std::vector<std::string> top_screen(const Json& status, const Json& incidents, size_t columns, size_t rows) {
  std::vector<std::string> lines;
  // The last line tells how to leave.
  constexpr absl::string_view help = "q: quit";
  const size_t room = rows > 1 ? rows - 1 : rows;
  const auto open = open_incidents(incidents);
  if (!open.empty()) {
    std::vector<std::vector<std::string>> table = {{"INCIDENT", "CLASS", "STATE", "JOB", "OPERATION", "CULPRIT"}};
    const size_t shown_max = std::max<size_t>(3, rows / 4);
    for (const Json* i : open) {
      if (table.size() > shown_max) break;
      table.push_back({text_of(*i, "incident"), text_of(*i, "class"), report::state_text(*i), text_of(*i, "job", "-"),
                       text_of(*i, "op_seq", "-"), culprit_text(*i)});
    }
    const size_t shown = table.size() - 1;
    add_lines(lines, report::fitted_table(std::move(table), {{.right = true}, {}, {}, {.least = 6}, {.right = true, .leave_out = 1}, {.least = 10}}, columns));
    if (open.size() > shown) lines.push_back(report::shortened(absl::StrCat("and ", open.size() - shown, " more (ccld explain)"), columns));
    lines.emplace_back();
  }
  add_lines(lines, report::status_text(status, {.columns = columns}));
  if (lines.size() > room) lines.resize(room);
  if (rows > 1) {
    lines.resize(room);
    lines.push_back(report::shortened(std::string(help), columns));
  }
  return lines;
}

}  // namespace ccld::decision
