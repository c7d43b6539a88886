#include "decision/report/mitigation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "decision/advise/known_settings.h"
#include "decision/advise/strategies.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

using advise::Fault;

constexpr double ns = static_cast<double>(ns_per_ms);

Fault fault_of(const std::string& condition, bool has_peer) {
  static const std::map<std::string, Fault> faults = {
      {"gpu_late", Fault::compute},
      {"host_late", Fault::compute},
      {"gaps_longer", Fault::compute},
      {"processors_short", Fault::compute},
      {"gpu_takes_slowly", Fault::machine},
      {"gpu_slow", Fault::compute},
      {"kernel_stuck", Fault::machine},
      {"kernel_not_begun", Fault::machine},
      {"kernel_not_started", Fault::machine},
      {"data_not_seen", Fault::machine},
      {"proxy_stuck", Fault::machine},
      {"proxy_not_begun", Fault::machine},
      {"proxy_slow", Fault::machine},
      {"proxy_polls_seldom", Fault::machine},
      {"nic_stuck", Fault::machine},
      {"nic_slow", Fault::machine},
      {"host_silent", Fault::machine},
      {"stopped", Fault::process},
      {"gone", Fault::process},
      {"silent", Fault::process},
      {"never_heard", Fault::process},
      {"aborted", Fault::process},
      {"not_called", Fault::process},
      {"not_launched", Fault::process},
      {"left", Fault::process},
      {"replay_not_begun", Fault::process},
      {"initialization_behind", Fault::process},
      {"initialization_failed", Fault::process},
      {"call_differs", Fault::program},
      {"call_skipped", Fault::program},
      {"call_added", Fault::program},
      {"bytes_differ", Fault::program},
      {"ended_early", Fault::program},
      {"ended_late", Fault::program},
  };
  if (condition == "link_slow" || condition == "nothing_arrives") return has_peer ? Fault::link : Fault::machine;
  const auto at = faults.find(condition);
  return at == faults.end() ? Fault::unknown : at->second;
}

std::optional<uint64_t> number(const Json& object, const char* key) {
  if (!has(object, key) || real_of(object, key, -1) < 0) return std::nullopt;
  return number_of(object, key);
}

// The number in the job of a rank of the incident's communicator: another culprit's, or its own where the communicator
// is the job.
std::optional<uint64_t> job_rank(const Json& verdict, const std::optional<uint64_t>& rank, const Layout& layout) {
  if (!rank.has_value()) return std::nullopt;
  bool same = layout.given() && number_of(verdict, "rank_count") == layout.processes();
  for (const Json& c : member(verdict, "culprits")) {
    if (number(c, "rank") == rank && number(c, "job_rank").has_value()) return number(c, "job_rank");
    same = same && number(c, "rank") == number(c, "job_rank");
  }
  return same ? rank : std::nullopt;
}

double since_onset_ns(const Json& verdict, const char* key) { return real_of(verdict, key) * ns; }

Json ms(double of_ns) {
  constexpr double digits = 1e3;
  return std::round(of_ns / ns * digits) / digits;
}

Json ranges_json(const std::vector<uint64_t>& numbers) { return ranks_text(Json(numbers)); }

Json strategy_json(const advise::Strategy& s, const std::optional<absl::Time>& onset) {
  Json shares = Json::array(), exchanges = Json::array();
  for (const advise::Share& share : s.shares)
    shares.push_back({{"count", share.count}, {"replicas", ranges_json(share.replicas)}});
  for (const auto& [a, b] : s.exchanges) exchanges.push_back({a, b});
  Json due_time;
  if (s.due_after.has_value() && onset.has_value())
    due_time =
        absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", *onset + absl::Nanoseconds(*s.due_after), absl::UTCTimeZone());
  const auto text = [](const std::string& t) { return t.empty() ? Json(nullptr) : Json(t); };
  return {{"action", name(s.action)},
          {"possible", s.possible()},
          {"why_not", text(s.why_not)},
          {"only_if", text(s.only_if)},
          {"expected_ms", s.time ? ms(s.time->expected) : Json(nullptr)},
          {"low_ms", s.time ? ms(s.time->low) : Json(nullptr)},
          {"high_ms", s.time ? ms(s.time->high) : Json(nullptr)},
          {"cost_s", s.cost / static_cast<double>(ns_per_s)},
          {"cost_is_least", s.cost_is_least},
          {"due_after_ms", s.due_after ? ms(*s.due_after) : Json(nullptr)},
          {"due_time", due_time},
          {"equal_share", s.equal_share == 0 ? Json(nullptr) : Json(s.equal_share)},
          {"micro_batches", shares},
          {"exchanges", exchanges},
          {"hosts", s.hosts},
          {"either_host", s.either_host}};
}

Json layout_json(const Layout& l) {
  if (!l.given()) return nullptr;
  Json out = {{"tp", l.tensor}, {"pp", l.pipeline}, {"dp", l.data}};
  if (l.expert > 0) out["ep"] = l.expert;
  out["order"] = l.order;
  return out;
}

}  // namespace

advise::Facts advice_facts(const Json& v, const advise::Known& known) {
  advise::Facts f;
  const std::string kind = text_of(v, "kind");
  f.kind = kind == "HANG"       ? advise::Facts::Kind::hang
           : kind == "MISMATCH" ? advise::Facts::Kind::mismatch
                                : advise::Facts::Kind::slow;
  f.goes_on = kind != "HANG";
  f.confirmed = text_of(v, "state") == "confirmed";
  f.confirmed_after = since_onset_ns(v, "confirmed_ms");
  const Json& gain = member(v, "gain");
  if (gain.is_object()) {
    f.of_iteration = text_of(gain, "of") == "iteration";
    f.now = real_of(gain, "now_ms") * ns;
    f.without = std::min(f.now, real_of(gain, "without_ms") * ns);
    // A job that was slow from the start has a usual time that is no better.
    constexpr double better = 0.95;
    const double usual = real_of(member(v, "stage"), "iteration_usual_ms") * ns;
    if (f.of_iteration && usual < better * f.now) f.usual = usual;
  }
  for (const Json& c : member(v, "culprits")) {
    advise::Suspect s;
    const std::string condition = text_of(c, "condition");
    s.fault = fault_of(condition, has(c, "peer"));
    s.perhaps_program = condition == "host_late" || condition == "gaps_longer";
    s.process = number(c, "job_rank");
    if (s.fault == Fault::link) s.peer_process = job_rank(v, number(c, "peer"), known.layout);
    s.host = text_of(c, "host");
    s.peer_host = text_of(c, "peer_host");
    s.share = real_of(c, "lost_time_share");
    f.suspects.push_back(std::move(s));
  }
  std::stable_sort(f.suspects.begin(), f.suspects.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return f;
}

Json mitigation_json(const Json& v, const advise::Known& known) {
  const std::string state = text_of(v, "state");
  if (state != "suspected" && state != "confirmed") return nullptr;
  const advise::Advice advice = advise::advise(advice_facts(v, known), known);
  std::optional<absl::Time> onset;
  if (absl::Time time; absl::ParseTime(absl::RFC3339_full, text_of(v, "onset_time"), &time, nullptr)) onset = time;
  Json strategies = Json::array(), settings = Json::object();
  for (const advise::Strategy& s : advice.strategies) strategies.push_back(strategy_json(s, onset));
  for (const auto& [name, value] : advise::changed_known_settings(known)) settings[name] = value;
  return {{"loss_share", advice.loss_known ? Json(advice.loss_share) : Json(nullptr)},
          {"strategies", strategies},
          {"layout", layout_json(known.layout)},
          {"settings", settings}};
}

void set_mitigation(Json& verdict, const advise::Known& known) {
  verdict["mitigation"] = mitigation_json(verdict, known);
}

advise::Known known_from(const Json& verdict) {
  advise::Known known;
  const Json& m = member(verdict, "mitigation");
  if (!m.is_object()) return known;
  if (const Json& l = member(m, "layout"); l.is_object())
    known.layout = {number_of(l, "tp"), number_of(l, "pp"), number_of(l, "dp"), number_of(l, "ep"),
                    text_of(l, "order", "tp-dp-pp")};
  if (!check_order(known.layout.order).ok()) known.layout = {};
  // Of a later version: what is not known here keeps its default.
  for (const auto& [name, value] : member(m, "settings").items())
    if (value.is_string())
      advise::parse_known_setting(known, absl::StrCat(name, "=", value.get<std::string>())).IgnoreError();
  return known;
}

}  // namespace ccld::decision::report
