#include "decision/report/verdict_text.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

constexpr size_t label_columns = 10;
// Evidence beyond this is in the JSON.
constexpr size_t evidence_rows_max = 40;

// "What      text", further lines indented to the text.
void paragraph(std::string& out, const char* label, const std::string& text) {
  if (text.empty()) return;
  absl::StrAppendFormat(&out, "%-*s%s\n", static_cast<int>(label_columns), label, wrapped(text, label_columns));
}

std::string comm_phrase(const Json& v) {
  std::string out = absl::StrCat("communicator ", text_of(v, "communicator"));
  if (has(v, "comm_name")) absl::StrAppend(&out, " \"", text_of(v, "comm_name"), "\"");
  if (has(v, "rank_count")) absl::StrAppend(&out, ", ", count_text(number_of(v, "rank_count"), "rank", "ranks"));
  const std::string job = text_of(v, "job");
  if (!job.empty()) absl::StrAppend(&out, ", job ", job);
  return out;
}

std::string times_phrase(const Json& v) {
  std::vector<std::string> parts;
  if (has(v, "onset_time")) parts.push_back(absl::StrCat("all was well until ", text_of(v, "onset_time")));
  for (const char* step : {"suspected", "located", "confirmed", "resolved"}) {
    const std::string key = absl::StrCat(step, "_ms");
    if (has(v, key.c_str())) parts.push_back(absl::StrCat(step, " after ", span_text(real_of(v, key.c_str()))));
  }
  return absl::StrJoin(parts, "; ");
}

std::string culprit_phrase(const Json& c) {
  const bool has_rank = has(c, "rank") && c.at("rank").get<int64_t>() >= 0;
  std::vector<std::string> parts;
  if (has(c, "host") && !text_of(c, "host").empty()) parts.push_back(absl::StrCat("host ", text_of(c, "host")));
  if (number_of(c, "pid") != 0) parts.push_back(absl::StrCat("pid ", number_of(c, "pid")));
  if (has(c, "gpu")) {
    parts.push_back(absl::StrCat("GPU ", number_of(c, "gpu"), has(c, "bus_id") ? absl::StrCat(" (", text_of(c, "bus_id"), ")") : ""));
  }
  std::string where = text_of(c, "component", "unknown");
  if (where == "unknown") where.clear();
  if (has(c, "peer")) absl::StrAppend(&where, where.empty() ? "" : " ", "with rank ", number_of(c, "peer"));
  if (has(c, "channel")) absl::StrAppend(&where, where.empty() ? "" : ", ", "channel ", number_of(c, "channel"));
  if (has(c, "net")) absl::StrAppend(&where, where.empty() ? "" : ", ", "network device ", text_of(c, "net"));
  if (!where.empty()) parts.push_back(where);

  std::string out = has_rank ? absl::StrCat("rank ", number_of(c, "rank")) : std::string("unknown rank");
  if (!parts.empty()) absl::StrAppend(&out, ": ", absl::StrJoin(parts, ", "));
  const std::string reason = text_of(c, "reason");
  if (!reason.empty()) absl::StrAppend(&out, " - ", reason);
  const double share = real_of(c, "lost_time_share");
  if (share > 0) absl::StrAppendFormat(&out, " (%.0f %% of the lost time)", share * 100);
  return out;
}

std::string evidence_table(const Json& evidence) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& e : evidence) {
    if (rows.size() == evidence_rows_max) break;
    rows.push_back({has(e, "rank") ? absl::StrCat("rank ", number_of(e, "rank")) : "all", text_of(e, "what"),
                    has(e, "value") ? measured(real_of(e, "value")) : "?", text_of(e, "unit")});
  }
  std::string out = table(rows, {false, false, true, false}, label_columns);
  if (evidence.size() > rows.size()) {
    absl::StrAppend(&out, std::string(label_columns, ' '), "and ", evidence.size() - rows.size(), " more rows, see --json\n");
  }
  return out;
}

std::string stage_phrase(const Json& s) {
  if (!s.is_object()) return "";
  std::vector<std::string> parts;
  const auto sure = [&](const char* key) { return absl::StrFormat(" (%.0f %% sure)", real_of(s, key) * 100); };
  if (text_of(s, "role", "unknown") != "unknown")
    parts.push_back(absl::StrCat("communicator of ", text_of(s, "role") == "world" ? "all processes" : absl::StrCat(text_of(s, "role"), " parallelism"),
                                 sure("role_confidence")));
  if (text_of(s, "phase", "unknown") != "unknown") parts.push_back(absl::StrCat("in ", text_of(s, "phase"), sure("phase_confidence")));
  if (has(s, "iteration_usual_ms") && has(s, "iteration_now_ms")) {
    const std::string effect = text_of(s, "effect", "unknown");
    parts.push_back(absl::StrCat("iterations take ", span_text(real_of(s, "iteration_now_ms")), ", usually ", span_text(real_of(s, "iteration_usual_ms")),
                                 effect == "critical"   ? ": the delay is on their critical path"
                                 : effect == "absorbed" ? ": the delay is absorbed"
                                                        : ""));
  }
  return absl::StrJoin(parts, "; ");
}

std::string gain_phrase(const Json& g) {
  if (!g.is_object()) return "";
  const auto span = [&](const char* key) {
    const double ms = real_of(g, key);
    return ms < 1000 ? absl::StrCat(measured(ms), " ms") : span_text(ms);
  };
  return absl::StrCat(text_of(g, "of") == "iteration" ? "iterations take " : "the operations compared take ",
                      span("now_ms"), "; without this ", span("without_ms"),
                      absl::StrFormat(" (%.0f %% less)", real_of(g, "share") * 100));
}

// Further communicators that wait for the same cause, and how many there are in all.
std::string victim_comms_phrase(const Json& comms, uint64_t count) {
  std::vector<std::string> names;
  for (const Json& c : comms) {
    std::string name = has(c, "comm_name") ? text_of(c, "comm_name") : text_of(c, "communicator");
    absl::StrAppend(&name, " (", count_text(number_of(c, "rank_count"), "rank", "ranks"),
                    has(c, "op_seq") ? absl::StrCat(", operation ", number_of(c, "op_seq")) : "", ")");
    names.push_back(std::move(name));
  }
  if (names.empty()) return "";
  const std::string more = count > names.size() ? absl::StrCat(" and ", count - names.size(), " more") : "";
  return absl::StrCat("on further communicators: ", absl::StrJoin(names, ", "), more);
}

std::string cycle_step_phrase(const Json& s) {
  std::string out = absl::StrCat("rank ", number_of(s, "rank"), " (", text_of(s, "host"), " pid ", number_of(s, "pid"), ") is in ",
                                 has(s, "op_seq") ? absl::StrCat("operation ", number_of(s, "op_seq")) : "Send or Recv",
                                 " of communicator ", has(s, "comm_name") ? text_of(s, "comm_name") : text_of(s, "communicator"));
  if (has(s, "waits_for")) absl::StrAppend(&out, " and waits for its rank ", number_of(s, "waits_for"));
  return out;
}

std::string victims_phrase(const Json& v) {
  const uint64_t count = number_of(v, "count");
  if (count == 0) return "";
  const Json& sample = member(v, "sample");
  std::string out = count_text(count, "rank suffers", "ranks suffer");
  if (sample.size() > 0) absl::StrAppend(&out, sample.size() < count ? ", among them " : ": ", ranks_text(sample));
  return out;
}

}  // namespace

std::string verdict_text(const Json& v) {
  std::string out = absl::StrCat("Incident ", number_of(v, "incident"), ": ", text_of(v, "class"), " ", text_of(v, "title"), ", ",
                                 text_of(v, "state"));
  absl::StrAppendFormat(&out, " (confidence %.0f %%)\n\n", real_of(v, "confidence") * 100);

  std::string what = operation_text(member(v, "operation"));
  if (has(v, "op_seq")) absl::StrAppend(&what, "; operation ", number_of(v, "op_seq"),
                                       has(v, "replay") ? absl::StrCat(", replay ", number_of(v, "replay"), " of its graph,") : "",
                                       " of ", comm_phrase(v));
  else absl::StrAppend(&what, "; ", comm_phrase(v));
  paragraph(out, "What", what);
  paragraph(out, "When", times_phrase(v));
  paragraph(out, "Stage", stage_phrase(member(v, "stage")));
  paragraph(out, "Gain", gain_phrase(member(v, "gain")));

  const Json& culprits = member(v, "culprits");
  const Json& candidates = member(v, "candidates");
  const char* label = "Who";
  for (const Json& culprit : culprits) {
    paragraph(out, label, culprit_phrase(culprit));
    label = "";
  }
  if (culprits.empty()) {
    paragraph(out, "Who", candidates.empty() ? "not singled out yet"
                                             : absl::StrCat("not singled out; candidates are ranks ", ranks_text(candidates)));
  }
  const Json& evidence = member(v, "evidence");
  if (!evidence.empty()) {
    // The first row stands beside the label.
    std::string rows = evidence_table(evidence);
    rows.replace(0, label_columns, absl::StrFormat("%-*s", static_cast<int>(label_columns), "Why"));
    out += rows;
  }
  paragraph(out, "Victims", victims_phrase(member(v, "victims")));
  const Json& victim_comms = member(v, "victim_communicators");
  paragraph(out, "", victim_comms_phrase(victim_comms, number_of(v, "victim_communicator_count")));
  label = "Circle";
  for (const Json& step : member(v, "cycle")) {
    paragraph(out, label, cycle_step_phrase(step));
    label = "";
  }
  paragraph(out, "Next", text_of(v, "next_step"));
  paragraph(out, "Rules", text_of(v, "rules"));
  return out;
}

std::string incident_list_text(const Json& incidents) {
  if (incidents.empty()) return "no incidents\n";
  std::vector<std::vector<std::string>> rows = {{"INCIDENT", "CLASS", "STATE", "SINCE", "COMMUNICATOR", "OPERATION", "GAIN", "CULPRIT"}};
  for (const Json& v : incidents) {
    std::vector<std::string> names;
    for (const Json& c : member(v, "culprits")) {
      constexpr size_t names_max = 3;
      if (names.size() == names_max) {
        names.push_back("...");
        break;
      }
      std::string who = absl::StrCat("rank ", text_of(c, "rank", "?"));
      if (text_of(c, "component", "unknown") != "unknown") absl::StrAppend(&who, " ", text_of(c, "component"));
      if (has(c, "host") && !text_of(c, "host").empty()) absl::StrAppend(&who, " on ", text_of(c, "host"));
      names.push_back(std::move(who));
    }
    const std::string comm = has(v, "comm_name") ? text_of(v, "comm_name") : text_of(v, "communicator");
    rows.push_back({text_of(v, "incident"), text_of(v, "class"), text_of(v, "state"), text_of(v, "onset_time", "?"), comm,
                    has(v, "op_seq") ? absl::StrCat(text_of(member(v, "operation"), "function"), " ", number_of(v, "op_seq")) : "-",
                    has(v, "gain") ? absl::StrFormat("%.0f %%", real_of(member(v, "gain"), "share") * 100) : "-",
                    names.empty() ? "not singled out" : absl::StrJoin(names, "; ")});
  }
  return table(rows, {true, false, false, false, false, false, true, false});
}

}  // namespace ccld::decision::report
