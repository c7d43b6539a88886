#include "decision/report/status_text.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "decision/report/open_incidents.h"
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

std::string rank_table(const Json& ranks, size_t columns) {
  std::vector<std::vector<std::string>> rows = {
      {"RANK", "HOST", "PID", "GPU", "ENTERED", "LAUNCHED", "DONE", "MOVED", "HEARD", "STATE"}};
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
  return fitted_table(rows,
                      {{.right = true},
                       {.least = 8},
                       {.right = true},
                       {.right = true, .leave_out = 1},
                       {.right = true, .leave_out = 3},
                       {.right = true, .leave_out = 4},
                       {.right = true},
                       {.right = true, .leave_out = 2},
                       {.right = true, .leave_out = 5},
                       {.least = 8}},
                      columns, 2);
}

// A line of prose, wrapped; names in it may hold anything.
std::string prose(const std::string& text, size_t columns, size_t indent = 0) {
  std::string out;
  for (const absl::string_view line : absl::StrSplit(wrapped(printable(text), indent, columns), '\n'))
    absl::StrAppend(&out, shortened(std::string(line), columns), "\n");
  return out;
}

// Communicator initializations: which rank has reached which stage, and which ranks were never heard of.
std::string initialization_text(const Json& initialization, size_t columns) {
  constexpr size_t indent = 2;
  const auto indented = [&](const std::string& text) {
    return absl::StrCat(std::string(indent, ' '), prose(text, columns, indent));
  };
  const auto of_all = [](uint64_t count, const Json& named) {
    return absl::StrCat(count > named.size() ? ", among them " : ": ", ranks_text(named));
  };
  std::string out;
  for (const Json& m : initialization) {
    const bool failed = member(m, "failed").is_boolean() && m.at("failed").get<bool>();
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat("communicator initialization, hash ", text_of(m, "comm_hash"), ", ",
                                       count_text(number_of(m, "rank_count"), "rank", "ranks"), ", job ",
                                       text_of(m, "job", "-"), ", ", failed ? "FAILED, begun " : "for ",
                                       span_text(real_of(m, "age_ms")), failed ? " ago" : ""),
                          columns));
    for (const Json& s : member(m, "stages")) {
      std::string stage = text_of(s, "stage", "?");
      if (has(s, "result")) absl::StrAppend(&stage, " with ncclResult_t ", text_of(s, "result"));
      const uint64_t count = number_of(s, "count");
      out += indented(absl::StrCat(stage, ": ", count_text(count, "rank", "ranks"), of_all(count, member(s, "ranks"))));
    }
    const uint64_t missing = number_of(m, "never_heard_count");
    if (missing == 0) continue;
    out += indented(absl::StrCat("never heard of: ", count_text(missing, "rank", "ranks"),
                                 of_all(missing, member(m, "never_heard"))));
  }
  return out;
}

// What operators asked of probes, where it is not what it was at the start.
std::string control_table(const Json& processes, size_t columns) {
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
  if (rows.size() == 1) return "";
  return fitted_table(rows,
                      {{.least = 8},
                       {.right = true},
                       {},
                       {.right = true, .leave_out = 3},
                       {.right = true},
                       {.right = true, .leave_out = 2},
                       {.leave_out = 1},
                       {.least = 8, .leave_out = 4},
                       {.least = 8}},
                      columns);
}

// What a communicator is in, how old that is, and what it is.
struct InFlight {
  std::string operation, age, what;
};
InFlight in_flight_of(const Json& c) {
  const Json& flight = member(c, "in_flight");
  if (!flight.is_null())
    return {grouped(number_of(flight, "op_seq")), span_text(real_of(flight, "age_ms")),
            operation_text(member(flight, "operation"))};
  const Json& p2p = member(c, "p2p");
  if (number_of(p2p, "in_flight") > 0)
    return {"-", span_text(real_of(p2p, "age_ms")), count_text(number_of(p2p, "in_flight"), "Send or Recv", "Sends and Recvs")};
  return {"-", "-", "nothing in flight"};
}

// All names of jobs are equal, as a rule: then they need no column.
bool one_job(const Json& communicators) {
  for (const Json& c : communicators)
    if (text_of(c, "job") != text_of(communicators.front(), "job")) return false;
  return true;
}

std::string comm_table(const Json& communicators, const StatusTextOptions& options, bool with_job) {
  std::vector<std::vector<std::string>> rows = {
      {"COMMUNICATOR", "NAME", "JOB", "STATE", "RANKS", "DONE", "IN", "FOR", "WHAT"}};
  for (const Json& c : communicators) {
    const InFlight flight = in_flight_of(c);
    rows.push_back({text_of(c, "communicator"), text_of(c, "comm_name", "-"), text_of(c, "job", "-"),
                    text_of(c, "state", "-"), absl::StrCat(number_of(c, "ranks_seen"), "/", number_of(c, "rank_count")),
                    grouped(number_of(c, "completed_min")), flight.operation, flight.age, flight.what});
  }
  std::vector<Column> layout = {{},
                                {.least = 6},
                                {.least = 6},
                                {},
                                {.right = true, .leave_out = 1},
                                {.right = true, .leave_out = 2},
                                {.right = true},
                                {.right = true},
                                {.least = 9}};
  if (!with_job) {
    layout.erase(layout.begin() + 2);
    for (auto& row : rows) row.erase(row.begin() + 2);
  }
  std::string out = fitted_table(rows, layout, options.columns);
  if (!options.ranks) return out;
  for (const Json& c : communicators) {
    const Json& ranks = member(c, "ranks");
    if (ranks.empty()) continue;
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat("ranks of ", text_of(c, "communicator"),
                                       has(c, "comm_name") ? absl::StrCat(" ", text_of(c, "comm_name")) : ""),
                          options.columns),
                    rank_table(ranks, options.columns));
    if (const uint64_t seen = number_of(c, "ranks_seen"); seen > ranks.size())
      absl::StrAppend(&out, prose(absl::StrCat("  and ", grouped(seen - ranks.size()), " more"), options.columns));
  }
  return out;
}

std::string job_table(const Json& jobs, size_t columns) {
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "STATE", "INCIDENTS", "PROCESSES", "SILENT", "ENDED", "COMMUNICATORS", "IN FLIGHT", "OLDEST"}};
  for (const Json& j : jobs) {
    rows.push_back({text_of(j, "job", "-"), text_of(j, "state", "-"), grouped(number_of(j, "incidents_open")),
                    grouped(number_of(j, "process_count")), grouped(number_of(j, "silent_process_count")),
                    grouped(number_of(j, "ended_process_count")), grouped(number_of(j, "communicator_count")), grouped(number_of(j, "communicators_in_flight")),
                    has(j, "oldest_in_flight_ms") ? span_text(real_of(j, "oldest_in_flight_ms")) : "-"});
  }
  return fitted_table(rows,
                      {{.least = 8},
                       {},
                       {.right = true},
                       {.right = true},
                       {.right = true},
                       {.right = true, .leave_out = 3},
                       {.right = true, .leave_out = 2},
                       {.right = true, .leave_out = 1},
                       {.right = true}},
                      columns);
}

std::string silent_table(const Json& processes, uint64_t silent, size_t columns) {
  constexpr size_t shown_max = 20;
  std::vector<std::vector<std::string>> rows = {{"SILENT PROCESS", "PID", "JOB", "LAST HEARD"}};
  for (const Json& p : processes) {
    if (!member(p, "silent").is_boolean() || !p.at("silent").get<bool>()) continue;
    if (rows.size() > shown_max) break;
    rows.push_back({text_of(p, "host", "?"), text_of(p, "pid"), text_of(p, "job", "-"),
                    absl::StrCat(span_text(real_of(p, "telemetry_age_ms")), " ago")});
  }
  const size_t shown = rows.size() - 1;
  if (shown == 0) return "";
  std::string out = fitted_table(rows, {{.least = 8}, {.right = true}, {.least = 8}, {.right = true}}, columns);
  if (silent > shown) out += prose(absl::StrCat("and ", grouped(silent - shown), " more silent processes"), columns);
  return out;
}

// Of what the service could not keep.
std::string memory_note(const Json& memory) {
  const Json &gone = member(memory, "let_go"), &refused = member(memory, "refused");
  const uint64_t forgotten = number_of(gone, "communicators") + number_of(gone, "processes");
  const uint64_t turned_away =
      number_of(refused, "communicators") + number_of(refused, "processes") + number_of(refused, "initializations");
  if (forgotten + turned_away == 0) return "";
  return absl::StrCat(
      "tables are full: ", count_text(number_of(gone, "communicators"), "communicator", "communicators"), " and ",
      count_text(number_of(gone, "processes"), "process", "processes"), " were forgotten, ",
      count_text(turned_away, "message", "messages"), " of new ones refused");
}

std::string connections_note(const Json& connections) {
  const uint64_t cut = number_of(connections, "cut_quiet") + number_of(connections, "cut_speaking");
  if (cut == 0) return "";
  return absl::StrCat("connections: ", count_text(cut, "was", "were"), " cut for want of descriptors or memory");
}

std::string http_note(const Json& http) {
  const Json& refused = member(http, "refused");
  const uint64_t count = number_of(refused, "no_room") + number_of(refused, "pushed_out");
  if (count == 0) return "";
  return absl::StrCat("query API: ", count_text(count, "connection was", "connections were"),
                      " refused, for too many waited");
}

// What stands below the tables, of a document about all jobs or one.
std::string notes(const Json& s, const StatusTextOptions& options) {
  std::string out;
  std::map<std::string, uint64_t> hidden;
  for (const Json& c : member(s, "communicators"))
    for (const Json& name : member(c, "not_measured")) ++hidden[name.get<std::string>()];
  for (const auto& [name, count] : hidden)
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat("not measured: ", name, ", on ", count_text(count, "communicator", "communicators")),
                          options.columns));
  out += initialization_text(member(s, "initializations"), options.columns);
  if (const uint64_t stopped = number_of(s, "stopped_probe_count"); stopped > 0) {
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat(count_text(stopped, "probe was", "probes were"),
                                       " stopped by an operator: what they do not say means nothing"),
                          options.columns));
  }
  if (const uint64_t undelivered = number_of(s, "undelivered_batches"); undelivered > 0) {
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat("probes say that ", count_text(undelivered, "batch", "batches"),
                                       " could not be delivered to this service or to one before it"),
                          options.columns));
  }
  if (const std::string note = memory_note(member(s, "memory")); !note.empty())
    absl::StrAppend(&out, "\n", prose(note, options.columns));
  if (const std::string note = connections_note(member(s, "connections")); !note.empty())
    absl::StrAppend(&out, "\n", prose(note, options.columns));
  if (const std::string note = http_note(member(s, "http")); !note.empty())
    absl::StrAppend(&out, "\n", prose(note, options.columns));
  const Json& network = member(s, "network");
  if (const uint64_t queues = number_of(network, "queues_in_flight"); queues > 0) {
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat("network: ", count_text(queues, "queue", "queues"), " with ",
                                       count_text(number_of(network, "requests_in_flight"), "request", "requests"),
                                       " in flight, ", grouped(number_of(network, "queues_stuck")),
                                       " of them without a completion for long"),
                          options.columns));
  }
  const std::string control_rows = control_table(member(s, "processes"), options.columns);
  if (!control_rows.empty()) absl::StrAppend(&out, "\n", control_rows);
  const std::string silent_rows =
      silent_table(member(s, "processes"), number_of(s, "silent_process_count"), options.columns);
  if (!silent_rows.empty()) absl::StrAppend(&out, "\n", silent_rows);
  return out;
}

}  // namespace

std::string incidents_part(const Json& s, const StatusTextOptions& options) {
  if (!options.incidents) return "";
  const std::string rows = open_incidents_text(member(s, "incidents"), number_of(s, "incidents_open"), options.columns);
  return rows.empty() ? "" : "\n" + rows;
}

std::string next_page_text(const Json& document, size_t columns) {
  if (!has(document, "next")) return "";
  return prose(absl::StrCat("and more: --limit N, or --after ", text_of(document, "next")), columns);
}

std::string status_text(const Json& s, const StatusTextOptions& options) {
  const Json& ingest = member(s, "ingest");
  const uint64_t open = number_of(s, "incidents_open");
  const uint64_t acknowledged = number_of(s, "incidents_acknowledged"), silenced = number_of(s, "incidents_silenced");
  const uint64_t silent = number_of(s, "silent_process_count"), ended = number_of(s, "ended_process_count");
  std::string away = silent == 0 ? "" : absl::StrCat(grouped(silent), " silent");
  if (ended > 0) absl::StrAppend(&away, away.empty() ? "" : ", ", grouped(ended), " ended");
  std::string out = prose(
      absl::StrCat("ccld ", text_of(s, "version"), ", up ", span_text(real_of(s, "uptime_ms")), ", ", text_of(s, "rules"),
                   " rules; ",
                   open == 0 ? "no open incident"
                             : absl::StrCat(count_text(open, "open incident", "open incidents"),
                                            acknowledged == 0 ? "" : absl::StrCat(", ", grouped(acknowledged), " acknowledged"),
                                            silenced == 0 ? "" : absl::StrCat(", ", grouped(silenced), " silenced"),
                                            " (ccld explain)")),
      options.columns);
  out += prose(
      absl::StrCat(count_text(number_of(s, "process_count"), "process", "processes"),
                   away.empty() ? "" : absl::StrCat(" (", away, ")"), ", ",
                   count_text(number_of(ingest, "batches"), "batch", "batches"), ", ",
                   grouped(number_of(ingest, "lost_batches")), " lost, ", grouped(number_of(ingest, "rejected_total")), " rejected"),
      options.columns);

  out += incidents_part(s, options);
  const Json& jobs = member(s, "jobs");
  if (!jobs.empty()) absl::StrAppend(&out, "\n", job_table(jobs, options.columns));
  if (has(s, "jobs_next")) {
    out += prose(absl::StrCat("and ", grouped(number_of(s, "job_count") - jobs.size()), " more jobs"), options.columns);
  }
  const Json& communicators = member(s, "communicators");
  if (communicators.empty()) {
    absl::StrAppend(&out, "\n",
                    prose(number_of(s, "communicator_count") == 0
                              ? "no communicators: no process has reported one yet (NCCL_PROBE_ENDPOINT)"
                              : "no communicators on this page",
                          options.columns));
  } else {
    absl::StrAppend(&out, "\n", comm_table(communicators, options, !one_job(communicators)), next_page_text(s, options.columns));
  }
  out += notes(s, options);
  for (const Json& e : member(ingest, "errors")) {
    absl::StrAppend(&out, "\n",
                    prose(absl::StrCat("telemetry problem, ", count_text(number_of(e, "count"), "time", "times"), ", last ",
                                       text_of(e, "last_time"), ": ", text_of(e, "error")),
                          options.columns));
  }
  return out;
}

std::string job_text(const Json& j, const StatusTextOptions& options) {
  std::string out = job_table(Json::array({j}), options.columns);
  out += incidents_part(j, options);
  const Json& communicators = member(j, "communicators");
  absl::StrAppend(&out, "\n",
                  communicators.empty() ? prose("no communicators on this page", options.columns)
                                        : comm_table(communicators, options, false),
                  next_page_text(j, options.columns));
  return out + notes(j, options);
}

}  // namespace ccld::decision::report
