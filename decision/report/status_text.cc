#include "decision/report/status_text.h"

#include <map>

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
    if (member(r, "silent").is_boolean() && r.at("silent").get<bool>())
      absl::StrAppend(&state, state.empty() ? "" : ", ", "silent");
    if (!up) absl::StrAppend(&state, state.empty() ? "" : ", ", "down");
    if (member(r, "watched").is_boolean() && !r.at("watched").get<bool>())
      absl::StrAppend(&state, state.empty() ? "" : ", ", "probe stopped");
    const Json& p2p = member(r, "p2p");
    if (number_of(p2p, "in_flight") > 0) {
      absl::StrAppend(&state, state.empty() ? "" : ", ", "in ",
                      count_text(number_of(p2p, "in_flight"), "Send/Recv", "Sends/Recvs"), " for ",
                      span_text(real_of(p2p, "age_ms")));
    }
    if (has(r, "replay")) {
      const Json& replay = member(r, "replay");
      absl::StrAppend(&state, state.empty() ? "" : ", ", "in replay ", number_of(replay, "replay"), " of operation ",
                      number_of(replay, "op_seq"));
    }
    rows.push_back({text_of(r, "rank"), text_of(r, "host", "?"), text_of(r, "pid", "?"), text_of(r, "gpu", "-"),
                    grouped(number_of(r, "entered")), grouped(number_of(r, "launched")),
                    grouped(number_of(r, "completed")), absl::StrCat(span_text(real_of(r, "moved_age_ms")), " ago"),
                    absl::StrCat(span_text(real_of(r, "telemetry_age_ms")), " ago"), state});
  }
  return table(rows, {true, false, true, true, true, true, true, true, true, false}, 2);
}

std::string p2p_phrase(const Json& p2p) {
  const uint64_t calls = number_of(p2p, "in_flight");
  if (calls == 0) return "nothing";
  return absl::StrCat(count_text(calls, "Send or Recv", "Sends and Recvs"), ", the oldest for ",
                      span_text(real_of(p2p, "age_ms")));
}

// Communicator initializations: which rank has reached which stage, and which ranks were never heard of.
std::string initialization_text(const Json& initialization) {
  std::string out;
  for (const Json& m : initialization) {
    const bool failed = member(m, "failed").is_boolean() && m.at("failed").get<bool>();
    absl::StrAppend(&out, "\ncommunicator initialization, hash ", text_of(m, "comm_hash"), ", ",
                    count_text(number_of(m, "rank_count"), "rank", "ranks"), ", job ", text_of(m, "job", "-"), ", ",
                    failed ? "FAILED, begun " : "for ", span_text(real_of(m, "age_ms")), failed ? " ago" : "", "\n");
    std::map<std::string, Json> stages;
    for (const Json& r : member(m, "ranks")) {
      std::string stage = text_of(r, "stage", "?");
      if (has(r, "result")) absl::StrAppend(&stage, " with ncclResult_t ", text_of(r, "result"));
      stages[stage].push_back(member(r, "rank"));
    }
    for (const auto& [stage, ranks] : stages) {
      absl::StrAppend(&out, "  ", wrapped(absl::StrCat(stage, ": ranks ", ranks_text(ranks)), 2), "\n");
    }
    const uint64_t missing = number_of(m, "never_heard_count");
    if (missing == 0) continue;
    const Json& named = member(m, "never_heard");
    absl::StrAppend(&out, "  ",
                    wrapped(absl::StrCat("never heard of: ", count_text(missing, "rank", "ranks"),
                                         missing > named.size() ? ", among them " : ": ", ranks_text(named)),
                            2),
                    "\n");
  }
  return out;
}

// What operators asked of probes, where it is not what it was at the start.
std::string control_table(const Json& processes) {
  std::vector<std::vector<std::string>> rows = {
      {"TUNED PROCESS", "PID", "PROBE", "SAMPLE", "NOW", "BUDGET", "LOG", "ENDPOINT", "REFUSED"}};
  for (const Json& p : processes) {
    const Json& c = member(p, "control");
    if (c.is_null()) continue;
    std::string refused;
    for (const Json& field : member(c, "refused"))
      absl::StrAppend(&refused, refused.empty() ? "" : ", ", field.get<std::string>());
    rows.push_back({text_of(p, "host", "?"), text_of(p, "pid"), text_of(p, "probe", "?"),
                    absl::StrCat(number_of(c, "sample_us"), " us"), absl::StrCat(number_of(c, "period_us"), " us"),
                    absl::StrCat(number_of(c, "budget_ppm"), " ppm"), text_of(c, "log", "?"),
                    text_of(c, "endpoint", "-"), refused});
  }
  return rows.size() == 1 ? "" : table(rows, {false, true, false, true, true, true, false, false, false});
}

std::string comm_table(const Json& communicators, bool with_ranks) {
  std::vector<std::vector<std::string>> rows = {
      {"COMMUNICATOR", "NAME", "JOB", "RANKS", "ENTERED", "DONE", "IN FLIGHT"}};
  for (const Json& c : communicators) {
    const Json& flight = member(c, "in_flight");
    rows.push_back({text_of(c, "communicator"), comm_label(c), text_of(c, "job", "-"),
                    absl::StrCat(number_of(c, "ranks_seen"), "/", number_of(c, "rank_count")),
                    grouped(number_of(c, "entered_max")), grouped(number_of(c, "completed_min")),
                    flight.is_null() ? p2p_phrase(member(c, "p2p"))
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
      "ccld ", text_of(s, "version"), ", up ", span_text(real_of(s, "uptime_ms")), ", ", text_of(s, "rules"),
      " rules; ",
      open == 0 ? "no open incident"
                : absl::StrCat(count_text(open, "open incident", "open incidents"), " (ccld explain)"),
      "\n", count_text(number_of(s, "process_count"), "process", "processes"),
      silent == 0 ? "" : absl::StrCat(" (", grouped(silent), " silent)"), ", ",
      count_text(number_of(ingest, "batches"), "batch", "batches"), ", ", grouped(number_of(ingest, "lost_batches")),
      " lost, ", grouped(number_of(ingest, "rejected_total")), " rejected\n");

  const Json& communicators = member(s, "communicators");
  if (communicators.empty()) {
    absl::StrAppend(&out, "\nno communicators: no process has reported one yet (NCCL_PROBE_ENDPOINT)\n");
  } else {
    absl::StrAppend(&out, "\n", comm_table(communicators, with_ranks));
  }
  std::map<std::string, uint64_t> hidden;
  for (const Json& c : communicators)
    for (const Json& name : member(c, "not_measured")) ++hidden[name.get<std::string>()];
  for (const auto& [name, count] : hidden)
    absl::StrAppend(&out, "\nnot measured: ", name, ", on ", count_text(count, "communicator", "communicators"), "\n");
  out += initialization_text(member(s, "initializations"));
  if (const uint64_t stopped = number_of(s, "stopped_probe_count"); stopped > 0) {
    absl::StrAppend(&out, "\n", count_text(stopped, "probe was", "probes were"),
                    " stopped by an operator: what they do not say means nothing\n");
  }
  const Json& network = member(s, "network");
  if (const uint64_t queues = number_of(network, "queues_in_flight"); queues > 0) {
    absl::StrAppend(&out, "\nnetwork: ", count_text(queues, "queue", "queues"), " with ",
                    count_text(number_of(network, "requests_in_flight"), "request", "requests"), " in flight, ",
                    grouped(number_of(network, "queues_stuck")), " of them without a completion for long\n");
  }
  const std::string control_rows = control_table(member(s, "processes"));
  if (!control_rows.empty()) absl::StrAppend(&out, "\n", control_rows);
  const std::string silent_rows = silent_table(member(s, "processes"));
  if (!silent_rows.empty()) absl::StrAppend(&out, "\n", silent_rows);
  for (const Json& e : member(ingest, "errors")) {
    absl::StrAppend(&out, "\ntelemetry problem, ", count_text(number_of(e, "count"), "time", "times"), ", last ",
                    text_of(e, "last_time"), ": ", text_of(e, "error"), "\n");
  }
  return out;
}

}  // namespace ccld::decision::report
