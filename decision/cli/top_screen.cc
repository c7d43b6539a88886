#include "decision/cli/top_screen.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "decision/report/open_incidents.h"
#include "decision/report/status_text.h"
#include "decision/report/text_format.h"

namespace ccld::decision {
namespace {

using report::Json;

void add_lines(std::vector<std::string>& lines, const std::string& text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) lines.emplace_back(line);
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
}

// The first `count`; all are confirmed ones and the newest.
Json first_of(const Json& rows, size_t count) {
  Json out = Json::array();
  for (size_t row = 0; row < std::min(count, rows.size()); ++row) out.push_back(rows[row]);
  return out;
}

}  // namespace

std::vector<std::string> top_screen(const Json& status, size_t columns, size_t rows) {
  std::vector<std::string> lines;
  // The last line tells how to leave.
  constexpr absl::string_view help = "q: quit";
  const size_t room = rows > 1 ? rows - 1 : rows;
  const Json open = first_of(report::member(status, "incidents"), std::max<size_t>(3, rows / 4));
  if (!open.empty()) {
    add_lines(lines, report::open_incidents_text(open, report::number_of(status, "incidents_open"), columns));
    lines.emplace_back();
  }
  add_lines(lines, report::status_text(status, {.columns = columns, .incidents = false}));
  if (lines.size() > room) lines.resize(room);
  if (rows > 1) {
    lines.resize(room);
    lines.push_back(report::shortened(std::string(help), columns));
  }
  return lines;
}

}  // namespace ccld::decision
