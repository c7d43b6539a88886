#include "decision/report/verdict_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "decision/report/acknowledgement.h"
#include "decision/report/mitigation_text.h"
#include "decision/report/silence.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

constexpr size_t label_columns = 9;
// A terminal that nobody has widened.
constexpr size_t columns = 80;
// Evidence beyond this is in the JSON.
constexpr size_t evidence_rows_max = 40;
// What decided most comes first; the rest is for those who ask (--evidence).
constexpr size_t proof_rows = 3;
constexpr size_t chain_ranks_max = 8;

using Page = std::vector<Paragraph>;

void paragraph(Page& out, const char* label, const std::string& text) {
  if (!text.empty()) out.push_back({label, text, Paragraph::prose});
}

std::string sentence(std::string text) {
  if (text.empty()) return text;
  text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  if (text.back() != '.') text += '.';
  return text;
}

// "2026-11-21T12:16:54.929Z" as "2026-11-21 12:16:54Z".
std::string to_the_second(std::string time) {
  if (const size_t dot = time.find('.'), end = time.find('Z');
      dot != std::string::npos && end != std::string::npos && dot < end)
    time.erase(dot, end - dot);
  if (const size_t date_end = time.find('T'); date_end != std::string::npos) time[date_end] = ' ';
  return time;
}

// Milliseconds between two times of the document.
std::optional<double> between_ms(const Json& v, const char* from, const char* to) {
  absl::Time begin, end;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text_of(v, from), &begin, &error) ||
      !absl::ParseTime(absl::RFC3339_full, text_of(v, to), &end, &error))
    return std::nullopt;
  return absl::ToDoubleMilliseconds(end - begin);
}

std::string culprit_place(const Json& c) {
  std::vector<std::string> parts;
  if (has(c, "host") && !text_of(c, "host").empty()) {
    parts.push_back(text_of(c, "host"));
    if (has(c, "peer_host") && text_of(c, "peer_host") != text_of(c, "host")) parts.back() += " -> " + text_of(c, "peer_host");
  }
  if (number_of(c, "pid") != 0) parts.push_back(absl::StrCat("pid ", number_of(c, "pid")));
  if (has(c, "gpu")) {
    parts.push_back(absl::StrCat("GPU ", number_of(c, "gpu"), has(c, "bus_id") ? absl::StrCat(" (", text_of(c, "bus_id"), ")") : ""));
  }
  if (has(c, "net")) parts.push_back(absl::StrCat("network device ", text_of(c, "net")));
  const bool has_rank = has(c, "rank") && integer_of(c.at("rank")) >= 0;
  if (has_rank) {
    std::string rank = absl::StrCat("rank ", number_of(c, "rank"));
    if (has(c, "job_rank") && member(c, "job_rank") != member(c, "rank"))
      absl::StrAppend(&rank, ", in the job rank ", number_of(c, "job_rank"));
    parts.push_back(std::move(rank));
  }
  return absl::StrJoin(parts, ", ");
}

std::string comm_phrase(const Json& v) {
  if (!has(v, "communicator")) return "";
  std::string out = has(v, "comm_name") ? text_of(v, "comm_name") : text_of(v, "communicator");
  if (has(v, "rank_count")) absl::StrAppend(&out, " (", count_text(number_of(v, "rank_count"), "rank", "ranks"), ")");
  return out;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::pair<uint64_t, const char*> units[] = {{uint64_t{1} << 30, "GiB"}, {uint64_t{1} << 20, "MiB"}, {1 << 10, "KiB"}};
  for (const auto& [size, unit] : units)
    if (bytes >= size) return absl::StrCat(measured(static_cast<double>(bytes) / static_cast<double>(size)), " ", unit);
  return absl::StrCat(bytes, " bytes");
}

// "AllReduce #278 (1 MiB)"
std::string call_phrase(const Json& v) {
  const Json& operation = member(v, "operation");
  std::string out = text_of(operation, "function", "unknown");
  if (out == "unknown") out = "operation";
  if (has(v, "op_seq")) absl::StrAppend(&out, " #", number_of(v, "op_seq"));
  if (has(v, "replay")) absl::StrAppend(&out, ", replay ", number_of(v, "replay"), " of its graph");
  if (number_of(operation, "bytes") > 0) absl::StrAppend(&out, " (", bytes_text(number_of(operation, "bytes")), ")");
  return out;
}

// The longest way of waits that ends at a culprit. What a culprit itself waits for has nothing to do with its fault.
std::vector<uint64_t> wait_chain(const Json& v) {
  std::set<uint64_t> culprits;
  for (const Json& c : member(v, "culprits"))
    if (real_of(c, "rank", -1) >= 0) culprits.insert(number_of(c, "rank"));
  std::map<uint64_t, uint64_t> next;
  for (const Json& w : member(v, "waits"))
    if (!has(w, "communicator") && !culprits.contains(number_of(w, "rank"))) next.try_emplace(number_of(w, "rank"), number_of(w, "waits_for"));
  std::vector<uint64_t> longest;
  for (const auto& [start, ignored] : next) {
    std::vector<uint64_t> chain = {start};
    for (auto it = next.find(start); it != next.end() && chain.size() <= next.size(); it = next.find(it->second)) chain.push_back(it->second);
    if (culprits.contains(chain.back()) && chain.size() >= longest.size()) longest = std::move(chain);
  }
  return longest;
}

// "1 -> 0 -> 3 -> 2"; of a long one both ends, of one that says nothing new none.
std::string chain_phrase(const std::vector<uint64_t>& chain) {
  if (chain.size() < 3) return "";
  if (chain.size() <= chain_ranks_max) return absl::StrJoin(chain, " -> ");
  constexpr size_t half = chain_ranks_max / 2;
  return absl::StrCat(absl::StrJoin(chain.begin(), chain.begin() + half, " -> "), " -> ... -> ",
                      absl::StrJoin(chain.end() - half, chain.end(), " -> "));
}

std::string waiting_phrase(const Json& v) {
  const uint64_t count = number_of(member(v, "victims"), "count");
  if (count == 0) return "";
  const std::vector<uint64_t> chain = wait_chain(v);
  const std::string text = chain_phrase(chain);
  const bool others = count + 1 > chain.size();  // the last of the chain does not wait
  return absl::StrCat(count_text(count, "rank waits", "ranks wait"), text.empty() ? "." : absl::StrCat(others ? ", for example " : ": ", text));
}

std::string what_phrase(const Json& v) {
  std::vector<std::string> parts;
  const Json& culprits = member(v, "culprits");
  const std::string comm = comm_phrase(v);
  parts.push_back(absl::StrCat(call_phrase(v), comm.empty() ? "" : absl::StrCat(" on ", comm), "."));
  if (culprits.size() > 0 && text_of(v, "kind") != "SLOW")
    if (const std::string reason = text_of(culprits[0], "reason"); !reason.empty()) parts.push_back(sentence(reason));
  const Json& candidates = member(v, "candidates");
  if (culprits.empty())
    parts.push_back(candidates.empty() ? "Nobody is singled out yet."
                                       : absl::StrCat("Nobody is singled out; candidates are ranks ", ranks_text(candidates), "."));
  if (text_of(v, "kind") != "SLOW")
    if (std::string waiting = waiting_phrase(v); !waiting.empty()) parts.push_back(std::move(waiting));
  return absl::StrJoin(parts, " ");
}

// "Iterations take 120 ms, usually 10 ms; without this 18 ms. 7 ranks wait." Of a window: how long its operations took.
std::string impact_phrase(const Json& v) {
  const Json& gain = member(v, "gain");
  const Json& stage = member(v, "stage");
  std::vector<std::string> parts;
  if (gain.is_object()) {
    const bool iteration = text_of(gain, "of") == "iteration";
    std::string out = absl::StrCat(iteration ? "Iterations take " : "The operations compared took ",
                                   span_of(real_of(gain, "now_ms")));
    if (iteration && has(stage, "iteration_usual_ms") &&
        std::abs(real_of(stage, "iteration_usual_ms") / std::max(1e-3, real_of(gain, "now_ms")) - 1) > 0.01)
      absl::StrAppend(&out, ", usually ", span_of(real_of(stage, "iteration_usual_ms")));
    parts.push_back(absl::StrCat(out, "; without this ", span_of(real_of(gain, "without_ms")), "."));
  }
  if (std::string waiting = waiting_phrase(v); !waiting.empty()) parts.push_back(std::move(waiting));
  return absl::StrJoin(parts, " ");
}

struct Cause {
  double share = 0;
  std::string reason, host;
  uint64_t ranks = 1;
};

// The greatest share first. Ranks of one host that share what it costs are one cause.
std::vector<Cause> causes_of(const Json& culprits) {
  std::vector<Cause> causes;
  for (const Json& c : culprits) {
    const double share = real_of(c, "lost_time_share");
    const std::string host = text_of(c, "component") == "host" ? text_of(c, "host") : "";
    const auto known = std::find_if(causes.begin(), causes.end(), [&](const Cause& o) { return !host.empty() && o.host == host; });
    if (known == causes.end()) {
      causes.push_back({share, text_of(c, "reason"), host});
      continue;
    }
    known->share += share;
    ++known->ranks;
  }
  std::stable_sort(causes.begin(), causes.end(), [](const Cause& a, const Cause& b) { return a.share > b.share; });
  return causes;
}

// "57 % of the loss: its host calls late."; of several ranks the host is named.
std::string cause_phrase(const Cause& c) {
  std::string reason = c.reason;
  if (constexpr absl::string_view subject = "its host "; c.ranks > 1)
    reason = absl::StrCat("host ", c.host, absl::StartsWith(reason, subject) ? " " : ": ", absl::StripPrefix(reason, subject), " (",
                          count_text(c.ranks, "rank", "ranks"), ")");
  if (c.share <= 0) return sentence(reason);
  return absl::StrFormat("%.0f %% of the loss: %s%s", c.share * 100, reason, reason.empty() || reason.back() == '.' ? "" : ".");
}

// "182 ms", "2 ranks": with its unit.
std::string amount_text(const Json& e) {
  if (!has(e, "value")) return "?";
  const double value = real_of(e, "value");
  const std::string unit = text_of(e, "unit");
  if (unit == "ms") return span_of(value);
  if (unit == "s") return span_of(value * 1e3);
  const bool one = value == 1 && unit.size() > 1 && unit.back() == 's';
  return absl::StrCat(measured(value), unit.empty() ? "" : " ", one ? unit.substr(0, unit.size() - 1) : unit);
}

// Evidence about one rank as a sentence; empty: it is not one.
std::string rank_sentence(const Json& e, const std::string& kind) {
  const std::string rank = absl::StrCat("rank ", number_of(e, "rank")), amount = amount_text(e);
  if (kind == "waiters")
    return absl::StrCat(amount, real_of(e, "value") == 1 ? " waits" : " wait", " directly for ", rank,
                        has(e, "channel") ? absl::StrCat(" on channel ", number_of(e, "channel")) : "");
  if (kind == "calls_made") return absl::StrCat(rank, " has called ", amount);
  if (kind == "kernels_begun")
    return absl::StrCat("the GPU of ", rank, " has begun ", amount, ", by its probing frame");
  if (kind == "not_moved") return absl::StrCat(rank, " ", text_of(e, "what"), " ", amount);
  if (kind == "telemetry_age") return absl::StrCat("the process of ", rank, " was last heard ", amount, " ago");
  if (kind == "operation_age")
    return absl::StrCat(rank, " has been in operation ", number_of(e, "op_seq"), " for ", amount);
  if (absl::StartsWith(kind, "steps_more_than_")) {
    // "to rank 4 more steps are on the wire than before"
    const std::string what = text_of(e, "what");
    const size_t more = what.find(" more steps "), than = what.find(" than ");
    if (more == std::string::npos || than == std::string::npos || than < more) return "";
    return absl::StrCat(measured(real_of(e, "value")), what.substr(more, than - more), " from ", rank, " ",
                        what.substr(0, more), what.substr(than));
  }
  if (kind == "also_seen")
    return absl::StrCat("also seen at ", rank, ": ", absl::StripPrefix(text_of(e, "what"), "also seen there: "), ": ",
                        amount, has(e, "time") ? absl::StrCat(", last at ", to_the_second(text_of(e, "time"))) : "");
  return "";
}

// "7 ranks called AllReduce of 65,536 float32 as operation 32"; empty: not a sentence of its own.
std::string whole_sentence(const Json& e) {
  const std::string kind = text_of(e, "kind"), what = text_of(e, "what");
  if (constexpr absl::string_view subject = "ranks that "; kind == "ranks_calling" && absl::StartsWith(what, subject))
    return absl::StrCat(amount_text(e), " ", absl::StripPrefix(what, subject));
  if (constexpr absl::string_view begin = "it would take ";
      kind == "transfer_reference" && absl::StartsWith(what, begin))
    return absl::StrCat(begin, amount_text(e), " ", absl::StripPrefix(what, begin));
  if (kind == "waits_followed") return absl::StrCat("the waits of ", amount_text(e), " lead there");
  return has(e, "rank") ? rank_sentence(e, kind) : "";
}

std::string evidence_text(const Json& e) {
  if (std::string whole = whole_sentence(e); !whole.empty()) return whole;
  const std::string what = text_of(e, "what"), unit = text_of(e, "unit");
  const bool is_time = unit == "ms" || unit == "s";
  const std::string who = has(e, "rank") ? absl::StrCat("rank ", number_of(e, "rank"), ": ") : "";
  for (const absl::string_view begin : {"since ", "of ", "if "})
    if (absl::StartsWith(what, begin)) return absl::StrCat(who, amount_text(e), " ", what);
  const bool says_unit = !is_time && absl::StrContains(what, unit);
  const std::string amount = says_unit && has(e, "value") ? measured(real_of(e, "value")) : amount_text(e);
  return absl::StrCat(who, what, is_time ? " " : ": ", amount);
}

void add_causes(Page& out, const Json& culprits) {
  constexpr size_t causes_max = 3;
  const std::vector<Cause> causes = causes_of(culprits);
  const char* label = "Cause";
  for (size_t c = 0; c < std::min(causes.size(), causes_max); ++c) paragraph(out, std::exchange(label, ""), cause_phrase(causes[c]));
  if (causes.size() > causes_max) paragraph(out, "", absl::StrCat("and ", causes.size() - causes_max, " more"));
}

bool is_beside(const Json& e) { return text_of(e, "kind") == "also_seen" || text_of(e, "kind") == "not_measured"; }

// "GPU health (no NVML) of rank 2: not measured"
std::string unknown_phrase(const Json& evidence) {
  constexpr absl::string_view begin = "not measured: ";
  std::vector<std::string> parts;
  for (const Json& e : evidence) {
    if (text_of(e, "kind") != "not_measured") continue;
    const std::string who = has(e, "rank") ? absl::StrCat("rank ", number_of(e, "rank")) : amount_text(e);
    parts.push_back(absl::StrCat(absl::StripPrefix(text_of(e, "what"), begin), " of ", who, ": not measured"));
  }
  return absl::StrJoin(parts, "; ");
}

void add_proof(Page& out, const Json& evidence) {
  const char* label = "Proof";
  size_t rows = 0;
  for (const Json& e : evidence)
    if (!is_beside(e) && rows++ < proof_rows) paragraph(out, std::exchange(label, ""), sentence(evidence_text(e)));
  for (const Json& e : evidence)
    if (text_of(e, "kind") == "also_seen") paragraph(out, std::exchange(label, ""), sentence(evidence_text(e)));
}

// Of a closed incident nothing is left to be done; one that was cut off by the end of something says so in its next step.
void add_remedies(Page& out, const Json& v) {
  const char* label = "Do";
  const std::string state = text_of(v, "state");
  if (state == "resolved") return paragraph(out, label, "Nothing: it went away.");
  if (state == "ended") return paragraph(out, label, text_of(v, "next_step"));
  for (const Json& c : member(v, "commands"))  // not wrapped: to be copied
    out.push_back({std::exchange(label, ""), absl::StrCat(text_of(c, "host"), "$ ", text_of(c, "command")), Paragraph::verbatim});
  const std::string advice = text_of(v, "advice");
  paragraph(out, label, advice.empty() ? text_of(v, "next_step") : advice);
}

std::string times_phrase(const Json& v) {
  std::vector<std::string> parts;
  const Json& evidence = member(v, "evidence");
  const bool since_start = std::any_of(evidence.begin(), evidence.end(), [](const Json& e) { return text_of(e, "kind") == "since_start"; });
  if (since_start) parts.push_back("slow since the service began to look");
  else if (has(v, "onset_time")) parts.push_back(absl::StrCat("all was well until ", text_of(v, "onset_time")));
  const bool ended = text_of(v, "state") == "ended";
  // Steps that follow at once are said together: "suspected and located after 3.0 s".
  std::vector<std::string> steps;
  std::string after;
  const auto say = [&] {
    if (steps.empty()) return;
    const std::string last = steps.back();
    steps.pop_back();
    parts.push_back(
        absl::StrCat(steps.empty() ? "" : absl::StrCat(absl::StrJoin(steps, ", "), " and "), last, " after ", after));
    steps.clear();
  };
  std::vector<std::pair<double, const char*>> order;
  for (const char* step : {"suspected", "located", "confirmed", "resolved"})
    if (const std::string key = absl::StrCat(step, "_ms"); has(v, key.c_str()))
      order.emplace_back(real_of(v, key.c_str()), step);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [ms, step] : order) {
    if (std::string span = span_text(ms); span != after) say(), after = std::move(span);
    steps.push_back(ended && absl::string_view(step) == "resolved" ? "ended with the job" : step);
  }
  say();
  return absl::StrJoin(parts, "; ");
}

std::string evidence_table(const Json& evidence) {
  std::vector<std::vector<std::string>> rows;
  for (const Json& e : evidence) {
    if (rows.size() == evidence_rows_max) break;
    rows.push_back({has(e, "rank") ? absl::StrCat("rank ", number_of(e, "rank")) : "all", text_of(e, "what"),
                    has(e, "value") ? measured(real_of(e, "value")) : "?", text_of(e, "unit")});
  }
  std::string out = table(rows, {false, false, true, false});
  if (evidence.size() > rows.size()) {
    absl::StrAppend(&out, "and ", evidence.size() - rows.size(), " more rows, see --json\n");
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
  return absl::StrCat("communicators that wait for it: ", absl::StrJoin(names, ", "), more);
}

std::string cycle_step_phrase(const Json& s) {
  const std::string process = number_of(s, "pid") == 0 ? "" : absl::StrCat(" (", text_of(s, "host"), " pid ", number_of(s, "pid"), ")");
  std::string out = absl::StrCat("rank ", number_of(s, "rank"), process, " is in ",
                                 has(s, "op_seq") ? absl::StrCat("operation ", number_of(s, "op_seq")) : "Send or Recv",
                                 " of communicator ", has(s, "comm_name") ? text_of(s, "comm_name") : text_of(s, "communicator"));
  if (has(s, "waits_for")) absl::StrAppend(&out, " and waits for its rank ", number_of(s, "waits_for"));
  return out;
}

std::string victims_phrase(const Json& v) {
  const uint64_t count = number_of(v, "count");
  if (count == 0) return "";
  const Json& sample = member(v, "sample");
  std::string out = count_text(count, "rank", "ranks");
  if (sample.size() > 0) absl::StrAppend(&out, sample.size() < count ? ", among them " : ": ", ranks_text(sample));
  return out;
}

std::string wait_phrase(const Json& w) {
  const std::string what = text_of(w, "what");
  std::string out = absl::StrCat("rank ", number_of(w, "rank"), " waits for rank ", number_of(w, "waits_for"));
  if (has(w, "step_wanted"))
    absl::StrAppend(&out, ": ", what == "slot" ? "a free slot for step " : "step ", number_of(w, "step_wanted"),
                    has(w, "step_posted") ? absl::StrCat(", which has ", what == "slot" ? "taken " : "posted ", number_of(w, "step_posted")) : "");
  else if (what == "entry")
    absl::StrAppend(&out, " to enter the operation");
  if (has(w, "channel")) absl::StrAppend(&out, ", channel ", number_of(w, "channel"));
  if (has(w, "age_ms")) absl::StrAppend(&out, ", for ", span_text(real_of(w, "age_ms")));
  return out;
}

void add_details(Page& out, const Json& v) {
  paragraph(out, "Call", operation_text(member(v, "operation")));
  const Json& culprits = member(v, "culprits");
  const char* label = "Who";
  for (const Json& c : culprits) {
    const std::string channel = has(c, "channel") ? absl::StrCat(", channel ", number_of(c, "channel")) : "";
    paragraph(out, std::exchange(label, ""), absl::StrCat(culprit_place(c), channel, " - ", text_of(c, "component", "unknown"), ": ", text_of(c, "reason")));
  }
  const Json& evidence = member(v, "evidence");
  if (!evidence.empty()) {
    label = "Numbers";
    for (const absl::string_view row : absl::StrSplit(evidence_table(evidence), '\n', absl::SkipEmpty()))
      out.push_back({std::exchange(label, ""), std::string(row), Paragraph::verbatim});
  }
  label = "Waits";
  for (const Json& w : member(v, "waits")) paragraph(out, std::exchange(label, ""), wait_phrase(w));
  paragraph(out, "Victims", victims_phrase(member(v, "victims")));
  paragraph(out, "", victim_comms_phrase(member(v, "victim_communicators"), number_of(v, "victim_communicator_count")));
  paragraph(out, "Stage", stage_phrase(member(v, "stage")));
  paragraph(out, "Rules", text_of(v, "rules"));
}

}  // namespace

std::string verdict_title(const Json& v) {
  const std::string state = text_of(v, "state"), kind = text_of(v, "kind", "INCIDENT");
  const bool closed = state == "resolved" || state == "ended";
  const char* until = closed && has(v, "resolved_time") ? "resolved_time" : !closed && has(v, "now") ? "now" : "time";
  std::string out = kind;
  if (kind == "HANG")
    // The newest revision of an open one may be old: an answer of the service says when it was asked.
    if (const auto ms = between_ms(v, "onset_time", until); ms && *ms > 0)
      absl::StrAppend(&out, ", ", span_text(*ms));
  absl::StrAppend(&out, ": ", text_of(v, "title"));
  return out;
}

std::string verdict_state(const Json& v) {
  return absl::StrCat(state_text(v), absl::StrFormat(", %.0f %%", real_of(v, "confidence") * 100));
}

namespace {

// Of a list: as many columns of a title as tell incidents apart.
constexpr size_t title_columns_min = 36;

// "HANG, 1 min 12 s: process of rank 2 is stopped      confirmed, 95 %"
std::string title_line(const Json& v) {
  const std::string left = verdict_title(v), right = verdict_state(v);
  if (left.size() + 2 + right.size() <= columns) return left + std::string(columns - left.size() - right.size(), ' ') + right + "\n";
  return absl::StrCat(wrapped(left, 2, columns), "\n", std::string(columns - std::min(columns, right.size()), ' '), right, "\n");
}

}  // namespace

std::string verdict_text(const Json& v, bool evidence) {
  std::string out = title_line(v);
  for (const Paragraph& p : verdict_paragraphs(v, evidence))
    absl::StrAppendFormat(&out, "%-*s%s\n", static_cast<int>(label_columns), p.label,
                          p.form == Paragraph::verbatim ? p.text : wrapped(p.text, label_columns, columns));
  return out;
}

std::vector<Paragraph> verdict_paragraphs(const Json& v, bool evidence) {
  Page out;
  const uint64_t id = number_of(v, "incident");
  const Json& culprits = member(v, "culprits");
  const bool slow = text_of(v, "kind") == "SLOW";
  const std::string job = text_of(v, "job");
  const char* label = "Where";
  constexpr size_t places_max = 3;
  for (size_t c = 0; c < std::min(culprits.size(), places_max); ++c)
    paragraph(out, std::exchange(label, ""), absl::StrCat(job.empty() || c > 0 ? "" : absl::StrCat("job ", job, ", "), culprit_place(culprits[c])));
  if (culprits.size() > places_max) paragraph(out, "", absl::StrCat("and ", culprits.size() - places_max, " more"));
  if (culprits.empty() && !job.empty()) paragraph(out, "Where", absl::StrCat("job ", job));
  if (slow) paragraph(out, "Impact", impact_phrase(v));
  paragraph(out, "What", what_phrase(v));
  if (slow) add_causes(out, culprits);
  label = "Circle";
  for (const Json& step : member(v, "cycle")) paragraph(out, std::exchange(label, ""), cycle_step_phrase(step));
  paragraph(out, "When", times_phrase(v));
  if (!evidence) add_proof(out, member(v, "evidence"));
  paragraph(out, "Unknown", unknown_phrase(member(v, "evidence")));
  if (evidence) add_details(out, v);
  paragraph(out, "On it", acknowledged_text(v));
  paragraph(out, "Silenced", silenced_text(v));
  add_remedies(out, v);
  label = "Advice";
  for (const std::string& text : mitigation_summary(v)) paragraph(out, std::exchange(label, ""), text);
  const bool imported = has(v, "source");  // `ccld explain` does not know it
  const std::string which = absl::StrCat("incident ", id, ", class ", text_of(v, "class"), imported ? absl::StrCat(", by ", text_of(v, "source"), " data") : "");
  paragraph(out, "Details",
            evidence || imported
                ? absl::StrCat(which, has(v, "class_title") ? absl::StrCat(" (", text_of(v, "class_title"), ")") : "")
                : absl::StrCat(which, ": ccld explain ", id, " --evidence"));
  return out;
}

std::string incident_list_text(const Json& incidents, size_t columns) {
  if (incidents.empty()) return "no incidents\n";
  std::vector<std::vector<std::string>> rows = {{"INCIDENT", "STATE", "SINCE", "CLASS", "GAIN", "JOB", "WHAT"}};
  for (const Json& v : incidents)
    rows.push_back({text_of(v, "incident"), state_text(v), to_the_second(text_of(v, "onset_time", "?")),
                    text_of(v, "class"),
                    has(v, "gain") ? absl::StrFormat("%.0f %%", real_of(member(v, "gain"), "share") * 100) : "-",
                    text_of(v, "job", "-"), absl::StrCat(text_of(v, "kind", "INCIDENT"), ": ", text_of(v, "title"))});
  return fitted_table(std::move(rows),
                      {{.right = true},
                       {},
                       {},
                       {.leave_out = 2},
                       {.right = true, .leave_out = 3},
                       {.least = 6, .leave_out = 1},
                       {.least = title_columns_min}},
                      columns);
}

}  // namespace ccld::decision::report
