#include "decision/report/mitigation_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

constexpr size_t label_columns = 9, columns = 80;

bool is_action(const Json& s, const char* action) { return text_of(s, "action") == action; }
bool possible(const Json& s) { return member(s, "possible") == true; }

std::string action_name(const Json& s) {
  const std::string action = text_of(s, "action");
  return action == "micro_batches" ? "micro-batches" : action == "wait" ? "waiting" : action;
}

std::string micro_batches_text(const Json& s) {
  std::vector<std::string> shares;
  for (const Json& share : member(s, "micro_batches")) {
    const std::string replicas = text_of(share, "replicas");
    const bool one =
        std::all_of(replicas.begin(), replicas.end(), [](unsigned char c) { return absl::ascii_isdigit(c); });
    shares.push_back(absl::StrCat(shares.empty() ? count_text(number_of(share, "count"), "micro-batch", "micro-batches")
                                                 : std::to_string(number_of(share, "count")),
                                  " for ", one ? "replica " : "replicas ", replicas));
  }
  return absl::StrCat(absl::StrJoin(shares, ", "), " (now ", number_of(s, "equal_share"), " each)");
}

std::string placement_text(const Json& s) {
  std::vector<std::string> pairs;
  for (const Json& e : member(s, "exchanges"))
    pairs.push_back(absl::StrCat(integer_of(e.at(0)), " and ", integer_of(e.at(1))));
  return absl::StrCat("exchange the tensor groups of job ranks ", absl::StrJoin(pairs, ", then of "));
}

std::string restart_text(const Json& s, bool slow) {
  std::vector<std::string> hosts;
  for (const Json& h : member(s, "hosts")) hosts.push_back(printable(h.get<std::string>()));
  std::string out = slow ? "checkpoint, then restart" : "restart from the newest checkpoint";
  if (hosts.empty()) return absl::StrCat(out, slow ? "" : "; the hosts may stay");
  const bool either = member(s, "either_host") == true;
  constexpr size_t hosts_max = 8;
  const size_t more = hosts.size() > hosts_max ? hosts.size() - hosts_max : 0;
  hosts.resize(hosts.size() - more);
  return absl::StrCat(out, " without ",
                      either              ? "one of the hosts "
                      : hosts.size() == 1 ? "host "
                                          : "hosts ",
                      absl::StrJoin(hosts, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

bool is_slow(const Json& v) { return text_of(v, "kind") == "SLOW"; }

std::string action_text(const Json& v, const Json& s) {
  if (is_action(s, "micro_batches")) return micro_batches_text(s);
  if (is_action(s, "placement")) return placement_text(s);
  if (is_action(s, "restart")) return restart_text(s, is_slow(v));
  return "wait";
}

bool of_iteration(const Json& v) { return text_of(member(v, "gain"), "of") == "iteration"; }

// "iterations then take about 452 ms (440 to 480)"; empty: not known.
std::string gain_phrase(const Json& v, const Json& s) {
  if (!has(s, "expected_ms")) return "";
  return absl::StrCat(of_iteration(v) ? "iterations then take" : "the operations compared then take", " about ",
                      span_of(real_of(s, "expected_ms")), " (", span_of(real_of(s, "low_ms")), " to ",
                      span_of(real_of(s, "high_ms")), ")");
}

std::optional<absl::Time> time_of(const Json& v, const char* key) {
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, text_of(v, key), &time, nullptr)) return std::nullopt;
  return time;
}

// When the document was asked for; of a file when its line was made.
std::optional<absl::Time> now_of(const Json& v) { return time_of(v, has(v, "now") ? "now" : "time"); }

bool is_due(const Json& v, const Json& s) {
  const auto now = now_of(v), due = time_of(s, "due_time");
  return now && due && *due <= *now;
}

std::string cost_phrase(const Json& s) {
  constexpr double ms = 1e3;
  return absl::StrCat("costs ", member(s, "cost_is_least") == true ? "at least " : "",
                      span_text(real_of(s, "cost_s") * ms));
}

// "2026-11-26T12:00:10.5Z" without its fraction.
std::string to_the_second(const std::string& time) {
  return time.substr(0, time.find('.')) + (time.find('.') == std::string::npos ? "" : "Z");
}

// "pays since ..", "pays from .. on, if it lasts".
std::string when_phrase(const Json& v, const Json& s) {
  if (!has(s, "due_time")) return "wait until it is confirmed";
  if (!is_slow(v)) return "nothing is gained by waiting";
  const std::string time = to_the_second(text_of(s, "due_time"));
  return is_due(v, s) ? absl::StrCat("pays since ", time) : absl::StrCat("pays from ", time, " on, if it lasts");
}

std::string capital(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(static_cast<unsigned char>(text[0]));
  return text;
}

// Action; what it gains; cost and when.
std::string strategy_sentences(const Json& v, const Json& s) {
  std::vector<std::string> sentences = {capital(action_text(v, s))};
  if (std::string gain = gain_phrase(v, s); !gain.empty()) sentences.push_back(capital(std::move(gain)));
  sentences.push_back(absl::StrCat(capital(cost_phrase(s)), "; ", when_phrase(v, s)));
  if (has(s, "only_if")) sentences.push_back(absl::StrCat("Only if ", text_of(s, "only_if")));
  return absl::StrCat(absl::StrJoin(sentences, ". "), ".");
}

std::string loss_phrase(const Json& v, const Json& m) {
  if (text_of(v, "kind") == "HANG") return "All of the time, until somebody acts.";
  if (text_of(v, "kind") == "MISMATCH") return "Its data is wrong, or it hangs: waiting mends neither.";
  const Json& gain = member(v, "gain");
  if (!gain.is_object()) return "Not known.";
  std::string out =
      absl::StrCat(of_iteration(v) ? "Iterations take " : "The operations compared took ",
                   span_of(real_of(gain, "now_ms")), "; without this ", span_of(real_of(gain, "without_ms")));
  const auto onset = time_of(v, "onset_time"), now = now_of(v);
  if (onset && now && *now > *onset)
    absl::StrAppend(&out,
                    ". Lost so far: ", span_text(absl::ToDoubleMilliseconds(*now - *onset) * real_of(m, "loss_share")),
                    absl::StrFormat(" (%.0f %%)", real_of(m, "loss_share") * 100));
  return out + ".";
}

// Those that are possible, the cheapest first, without waiting.
std::vector<const Json*> actions_of(const Json& m) {
  std::vector<const Json*> actions;
  for (const Json& s : member(m, "strategies"))
    if (!is_action(s, "wait") && possible(s)) actions.push_back(&s);
  return actions;
}

// Of a culprit that a test outside the job can confirm or clear.
bool names_hardware(const Json& v) {
  for (const Json& culprit : member(v, "culprits")) {
    const std::string component = text_of(culprit, "component");
    if ((component == "gpu" || component == "nic" || component == "link") && has(culprit, "host")) return true;
  }
  return false;
}

void add(std::string& out, const char* label, const std::string& text) {
  absl::StrAppendFormat(&out, "%-*s%s\n", static_cast<int>(label_columns), label,
                        wrapped(text, label_columns, columns));
}

}  // namespace

std::string mitigation_text(const Json& v) {
  std::string out = absl::StrCat(wrapped(verdict_title(v), 2, columns), "\n");
  const Json& m = member(v, "mitigation");
  add(out, "State", verdict_state(v));
  if (!m.is_object()) {
    add(out, "Do", "Nothing: it is over.");
    return out;
  }
  add(out, "Loss", loss_phrase(v, m));
  // What costs less than any strategy, as to continue a process that somebody stopped.
  if (const std::string check = text_of(v, "advice"); !check.empty()) add(out, "Check", check);
  if (names_hardware(v))
    add(out, "Check", absl::StrCat("Is it the hardware? ccld validate --incident ", number_of(v, "incident"), " tests it."));
  const std::vector<const Json*> actions = actions_of(m);
  if (actions.empty())
    add(out, "First", "Nothing that is known to help: see `ccld explain`.");
  else if (is_slow(v) && has(*actions[0], "due_time") && !is_due(v, *actions[0]))
    add(out, "Now", "Wait: acting costs more than the slowness has so far.");
  const char* label = "First";
  for (const Json* s : actions) add(out, std::exchange(label, "Then"), strategy_sentences(v, *s));
  label = "Not";
  for (const Json& s : member(m, "strategies"))
    if (!possible(s)) add(out, std::exchange(label, ""), absl::StrCat(action_name(s), ": ", text_of(s, "why_not")));
  return out;
}

std::vector<std::string> mitigation_summary(const Json& v) {
  const Json& m = member(v, "mitigation");
  if (!m.is_object()) return {};
  std::vector<std::string> out;
  const std::vector<const Json*> actions = actions_of(m);
  if (!actions.empty()) out.push_back(strategy_sentences(v, *actions[0]));
  if (actions.size() > 1) out.push_back(absl::StrCat("More: ccld advise ", number_of(v, "incident")));
  return out;
}

}  // namespace ccld::decision::report
