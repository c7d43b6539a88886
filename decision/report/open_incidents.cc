#include "decision/report/open_incidents.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/model/names.h"
#include "decision/report/acknowledgement.h"
#include "decision/report/headline.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {

Json open_incidents_json(const Snapshot& s, const std::optional<std::string>& job, size_t rows_max) {
  std::vector<const Incident*> open;
  for (const Incident& i : s.incidents)
    if (is_open(i.state) && (!job.has_value() || i.job == *job)) open.push_back(&i);
  std::sort(open.begin(), open.end(), [](const Incident* a, const Incident* b) {
    const auto key = [](const Incident& i) { return std::pair(i.state == VerdictState::confirmed, i.id); };
    return key(*a) > key(*b);
  });
  if (open.size() > rows_max) open.resize(rows_max);
  Json rows = Json::array();
  for (const Incident* i : open) {
    Json row = {{"incident", i->id},     {"class", name(i->fault)}, {"kind", kind_text(i->fault)},
                {"title", headline(*i)}, {"job", i->job},           {"state", name(i->state)}};
    set_acknowledged(row, s.acknowledgements);
    row["silenced"] = is_silenced(*i, s);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string open_incidents_text(const Json& incidents, uint64_t open, size_t columns) {
  if (incidents.empty()) return "";
  std::vector<std::vector<std::string>> rows = {{"INCIDENT", "STATE", "JOB", "WHAT"}};
  for (const Json& i : incidents)
    rows.push_back({text_of(i, "incident"), state_text(i), text_of(i, "job", "-"),
                    absl::StrCat(text_of(i, "kind"), ": ", text_of(i, "title"))});
  std::string out =
      fitted_table(std::move(rows), {{.right = true}, {}, {.least = 6, .leave_out = 1}, {.least = 40}}, columns);
  if (open > incidents.size())
    absl::StrAppend(
        &out,
        shortened(absl::StrCat("and ", grouped(open - incidents.size()), " more (ccld incidents --open)"), columns),
        "\n");
  absl::StrAppend(
      &out,
      shortened(absl::StrCat("Why, and what to do: ccld explain ", text_of(incidents.front(), "incident")), columns),
      "\n");
  return out;
}

}  // namespace ccld::decision::report
