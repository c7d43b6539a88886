#include "decision/import/import_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"
#include "decision/report/wall_clock.h"

namespace ccld::decision::dumps {
namespace {

report::Json incident_json(const Findings& f, const Incident& i) {
  // Instants of dumps are of the calendar already.
  report::Json out = report::verdict_json(i, f.newest_ns, report::WallClock{0});
  if (f.newest_ns == 0) out["time"] = nullptr;
  out["source"] = f.source;
  return out;
}

}  // namespace

report::Json findings_json(const Findings& f) {
  report::Json incidents = report::Json::array();
  for (const Incident& i : f.incidents) incidents.push_back(incident_json(f, i));
  return {{"source", f.source},
          {"summary", f.summary},
          {"incidents", std::move(incidents)},
          {"notes", f.notes},
          {"not_shown", f.not_shown}};
}

std::string findings_text(const Findings& f, bool evidence) {
  std::string out;
  for (const Incident& i : f.incidents)
    absl::StrAppend(&out, report::verdict_text(incident_json(f, i), evidence), "\n");
  if (f.incidents.empty()) out = "no incident\n";
  for (const std::string& note : f.notes)
    absl::StrAppend(&out, "Note: ", report::wrapped(report::printable(note), 6), "\n");
  absl::StrAppend(&out,
                  "Not shown by these data: ", report::wrapped(report::printable(absl::StrJoin(f.not_shown, "; ")), 25),
                  ".\n");
  return out;
}

}  // namespace ccld::decision::dumps
