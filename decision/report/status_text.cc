#include "decision/report/status_text.h"

#include "absl/strings/str_cat.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

// As /proc/<pid>/stat names them, in words.
std::string process_state_text(const std::string& letter) {
  if (letter.empty()) return "";
  switch (letter[0]) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "uninterruptible";
    case 'T': return "stopped";
    case 't': return "traced";
    case 'Z': return "zombie";
    case 'X': return "gone";
    default: return letter;
  }
}

std::string comm_label(const Json& c) { return has(c, "comm_name") ? text_of(c, "comm_name") : "-"; }

std::string rank_table(const Json& ranks) {
  std::vector<std::vector<std::string>> rows = {
      {"RANK", "HOST", "PID", "GPU", "ENTERED", "LAUNCHED", "DONE", "LAST MOVE", "LAST HEARD", "STATE"}};
  for (const Json& r : ranks) {
    const bool up = member(r, "up").is_boolean() && r.at("up").get<bool>();
    std::string state = process_state_text(text_of(r, "process_state"));
    if (member(r, "silent").is_boolean() && r.at("silent").get<bool>()) absl::StrAppend(&state, state.empty() ? "" : ", ", "silent");
    if (!up) absl::StrAppend(&state, state.empty() ? "" : ", ", "down");
    rows.push_back({text_of(r, "rank"), text_of(r, "host", "?"), text_of(r, "pid", "?"), text_of(r, "gpu", "-"),
                    grouped(number_of(r, "entered")), grouped(number_of(r, "launched")), grouped(number_of(r, "completed")),
                    absl::StrCat(span_text(real_of(r, "moved_age_ms")), " ago"),
                    absl::StrCat(span_text(real_of(r, "telemetry_age_ms")), " ago"), state});
  }
  return table(rows, {true, false, true, true, true, true, true, true, true, false}, 2);
}

std::string comm_table(const Json& communicators, bool with_ranks) {
  std::vector<std::vector<std::string>> rows = {{"COMMUNICATOR", "NAME", "JOB", "RANKS", "ENTERED", "DONE", "IN FLIGHT"}};
  for (const Json& c : communicators) {
    const Json& flight = member(c, "in_flight");
    rows.push_back({text_of(c, "communicator"), comm_label(c), text_of(c, "job", "-"),
                    absl::StrCat(number_of(c, "ranks_seen"), "/", number_of(c, "rank_count")),
                    grouped(number_of(c, "entered_max")), grouped(number_of(c, "completed_min")),
                    flight.is_null() ? "nothing"
                                     : absl::StrCat("operation ", grouped(number_of(flight, "op_seq")), " for ",
                                                    span_text(real_of(flight, "age_ms")), ": ",
                                                    operation_text(member(flight, "operation")))});
  }
  const std::string all = table(rows, {false, false, false, true, true, true, false});
  if (!with_ranks) return all;
  // The ranks of a communicator stand below its line.
  std::string out;
  size_t line_begin = 0, row = 0;
  while (line_begin < all.size()) {
    const size_t line_end = all.find('\n', line_begin) + 1;
    out.append(all, line_begin, line_end - line_begin);
    if (row > 0) {
      const Json& ranks = member(communicators.at(row - 1), "ranks");
      if (!ranks.empty()) out += rank_table(ranks);
    }
    line_begin = line_end;
    ++row;
  }
  return out;
}

std::string silent_table(const Json& processes) {
  std::vector<std::vector<std::string>> rows = {{"SILENT PROCESS", "PID", "JOB", "LAST HEARD"}};
  for (const Json& p : processes) {
    if (!member(p, "silent").is_boolean() || !p.at("silent").get<bool>()) continue;
    rows.push_back({text_of(p, "host", "?"), text_of(p, "pid"), text_of(p, "job", "-"),
                    absl::StrCat(span_text(real_of(p, "telemetry_age_ms")), " ago")});
  }
  return rows.size() == 1 ? "" : table(rows, {false, true, false, true});
}

}  // namespace

std::string status_text(const Json& s, bool with_ranks) {
  const Json& ingest = member(s, "ingest");
  const uint64_t open = number_of(s, "incidents_open");
  const uint64_t silent = number_of(s, "silent_process_count");
  std::string out = absl::StrCat(
      "ccld ", text_of(s, "version"), ", up ", span_text(real_of(s, "uptime_ms")), ", ", text_of(s, "rules"), " rules; ",
      open == 0 ? "no open incident" : absl::StrCat(count_text(open, "open incident", "open incidents"), " (ccld explain)"), "\n",
      count_text(number_of(s, "process_count"), "process", "processes"),
      silent == 0 ? "" : absl::StrCat(" (", grouped(silent), " silent)"), ", ",
      count_text(number_of(ingest, "batches"), "batch", "batches"), ", ", grouped(number_of(ingest, "lost_batches")), " lost, ",
      grouped(number_of(ingest, "rejected_total")), " rejected\n");

  const Json& communicators = member(s, "communicators");
  if (communicators.empty()) {
    absl::StrAppend(&out, "\nno communicators: no process has reported one yet (NCCL_PROBE_ENDPOINT)\n");
  } else {
    absl::StrAppend(&out, "\n", comm_table(communicators, with_ranks));
  }
  const std::string silent_rows = silent_table(member(s, "processes"));
  if (!silent_rows.empty()) absl::StrAppend(&out, "\n", silent_rows);
  for (const Json& e : member(ingest, "errors")) {
    absl::StrAppend(&out, "\ntelemetry problem, ", count_text(number_of(e, "count"), "time", "times"), ", last ",
                    text_of(e, "last_time"), ": ", text_of(e, "error"), "\n");
  }
  return out;
}

}  // namespace ccld::decision::report
