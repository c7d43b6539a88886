#include "decision/cli/replay_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_text.h"
#include "decision/report/wall_clock.h"

namespace ccld::decision {
namespace {

using report::count_text;
using report::grouped;
using report::has;
using report::Json;
using report::text_of;

std::string instant_text(const server::ReplaySummary& s, Nanoseconds instant_ns) {
  return report::WallClock{s.first_realtime_ns - s.first_ns}.text(instant_ns);
}

std::string settings_text(const recording::Metadata& m) {
  if (m.settings.empty()) return "the defaults";
  return absl::StrJoin(m.settings, ", ", [](std::string* out, const auto& setting) { absl::StrAppend(out, setting.first, "=", setting.second); });
}

std::string ending_text(const RecordingFacts& f) {
  if (!f.ending.has_value()) return "cut off";
  return f.ending->reason;
}

// What differs between two rule sets, as rows of a table.
std::vector<std::string> cells_of(const Json* v) {
  if (v == nullptr) return {"no incident", "", "", "", "", "", "", ""};
  std::vector<std::string> components;
  for (const Json& c : v->at("culprits")) {
    std::string text = text_of(c, "component", "unknown");
    if (has(c, "peer")) absl::StrAppend(&text, " with rank ", report::number_of(c, "peer"));
    if (std::find(components.begin(), components.end(), text) == components.end()) components.push_back(text);
  }
  const auto after = [&](const char* key) { return has(*v, key) ? report::span_text(report::real_of(*v, key)) : std::string("-"); };
  const bool named = !v->at("ranks").empty();
  return {absl::StrCat(text_of(*v, "class"), " ", text_of(*v, "title")),
          text_of(*v, "state"),
          named ? report::ranks_text(v->at("ranks")) : "not singled out",
          v->at("candidates").empty() ? "-" : report::ranks_text(v->at("candidates")),
          components.empty() ? "-" : absl::StrJoin(components, ", "),
          after("suspected_ms"),
          after("confirmed_ms"),
          after("located_ms")};
}

}  // namespace

void FinalVerdicts::see(Json verdict) {
  for (Json& known : verdicts_) {
    if (known["incident"] != verdict["incident"]) continue;
    known = std::move(verdict);
    return;
  }
  verdicts_.push_back(std::move(verdict));
}

Json summary_json(const server::ReplaySummary& s) {
  return {{"seconds", s.seconds()},
          {"messages", s.messages},
          {"message_bytes", s.message_bytes},
          {"ticks", s.ticks},
          {"multipart", s.multipart},
          {"gaps", s.gaps},
          {"missing", s.missing},
          {"processes", s.processes},
          {"ranks", s.ranks},
          {"communicators", s.communicators}};
}

Json facts_json(const RecordingFacts& f) {
  return {{"file", f.path},
          {"file_bytes", f.file_bytes},
          {"metadata", to_json(f.metadata)},
          {"summary", summary_json(f.summary)},
          {"ending", f.ending.has_value() ? Json(f.ending->reason) : Json(nullptr)}};
}

std::string facts_text(const RecordingFacts& f) {
  const server::ReplaySummary& s = f.summary;
  const recording::Metadata& m = f.metadata;
  std::string out;
  const auto line = [&](const char* label, const std::string& text) { absl::StrAppendFormat(&out, "%-10s%s\n", label, report::wrapped(text, 10)); };
  line("File", absl::StrCat(f.path, ", ", grouped(f.file_bytes), " bytes"));
  line("Made by", absl::StrCat("ccld ", m.version, " (", m.source, ") on ", m.host));
  if (s.messages + s.ticks > 0) {
    line("Time", absl::StrCat(instant_text(s, s.first_ns), " to ", instant_text(s, s.last_ns), ", ", absl::StrFormat("%.1f s", s.seconds())));
  }
  line("Content", absl::StrCat(grouped(s.messages), " messages of ", grouped(s.message_bytes), " bytes, ", grouped(s.ticks), " ticks"));
  line("Of", absl::StrCat(count_text(s.processes, "process", "processes"), ", ", count_text(s.ranks, "rank", "ranks"), " in ",
                          count_text(s.communicators, "communicator", "communicators")));
  line("Settings", settings_text(m));
  if (m.incident.is_object()) {
    line("Incident", absl::StrCat(report::number_of(m.incident, "incident"), ": ", text_of(m.incident, "class"), " ", text_of(m.incident, "title")));
  }
  if (s.gaps > 0) line("Missing", absl::StrCat(grouped(s.missing), " entries in ", count_text(s.gaps, "place", "places")));
  line("Ended", ending_text(f));
  return out;
}

std::string summary_text(const server::ReplaySummary& s) {
  return absl::StrCat(absl::StrFormat("%.1f s", s.seconds()), ", ", grouped(s.messages), " messages (", grouped(s.message_bytes), " bytes) of ",
                      count_text(s.processes, "process", "processes"), ", ", count_text(s.ranks, "rank", "ranks"), " in ",
                      count_text(s.communicators, "communicator", "communicators"));
}

std::string verdicts_text(const Json& verdicts) {
  if (verdicts.empty()) return "no incident\n";
  return absl::StrJoin(verdicts, "\n", [](std::string* out, const Json& verdict) { absl::StrAppend(out, report::verdict_text(verdict)); });
}

std::string comparison_text(const Json& measured, const Json& paper) {
  static constexpr const char* labels[] = {"class", "state", "ranks", "candidates", "component", "suspected after", "confirmed after", "located after"};
  std::string out;
  const size_t incidents = std::max({measured.size(), paper.size(), size_t{1}});
  for (size_t i = 0; i < incidents; ++i) {
    const auto left = cells_of(i < measured.size() ? &measured[i] : nullptr), right = cells_of(i < paper.size() ? &paper[i] : nullptr);
    std::vector<std::vector<std::string>> rows = {{incidents > 1 ? absl::StrCat("incident ", i + 1) : "", "default", "paper"}};
    for (size_t row = 0; row < left.size(); ++row) {
      if (left[row].empty() && right[row].empty()) continue;
      rows.push_back({labels[row], left[row], right[row]});
    }
    absl::StrAppend(&out, i > 0 ? "\n" : "", report::table(rows, {false, false, false}));
  }
  return out;
}

}  // namespace ccld::decision
