#include "decision/server/silences.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "decision/history/silences.h"
#include "decision/server/acknowledge.h"
#include "decision/server/request_fields.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {
namespace {

using report::Json;
using report::Silence;

constexpr const char* kinds[] = {"hang", "mismatch", "slow"};
constexpr const char* components[] = {"process", "host", "gpu", "proxy", "nic", "link", "application"};
constexpr size_t matcher_bytes_max = 255;  // of names of hosts and jobs

template <size_t n>
absl::Status check_one_of(const char* field, const std::string& text, const char* const (&known)[n]) {
  if (text.empty() || std::find(std::begin(known), std::end(known), text) != std::end(known)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", text, "' is not known: expected ", absl::StrJoin(known, ", ")));
}

absl::StatusOr<int64_t> parse_span_ms(const std::string& text) {
  constexpr std::pair<char, int64_t> units[] = {{'s', 1000}, {'m', 60'000}, {'h', 3'600'000}, {'d', 86'400'000}};
  for (const auto& [letter, ms] : units) {
    double count = 0;
    if (text.empty() || text.back() != letter || !absl::SimpleAtod(text.substr(0, text.size() - 1), &count)) continue;
    const double span = count * static_cast<double>(ms);
    if (span >= 1000 && span <= static_cast<double>(silence_ms_max)) return static_cast<int64_t>(span);
  }
  return absl::InvalidArgumentError(absl::StrCat("for: '", text, "' is not a span from 1s to 31d, such as 90s, 30m, 2h, 7d"));
}

}  // namespace

absl::StatusOr<Silence> parse_silence(const std::string& body, int64_t now_ms) {
  const auto json = parse_request(body);
  if (!json.ok()) return json.status();
  Silence s;
  std::string span;
  for (const auto& [name, value] : json->items()) {
    std::string* const matcher = name == "job" ? &s.job : name == "host" ? &s.host : name == "kind" ? &s.kind : name == "component" ? &s.component : nullptr;
    absl::Status status;
    if (matcher != nullptr) status = take_text(name, value, matcher_bytes_max, *matcher);
    else if (name == "for") status = take_text(name, value, matcher_bytes_max, span);
    else if (name == "by") status = take_text(name, value, operator_name_bytes_max, s.by);
    else if (name == "note") status = take_text(name, value, operator_note_bytes_max, s.note);
    else status = absl::InvalidArgumentError(absl::StrCat("field '", name, "' is not known here"));
    if (!status.ok()) return status;
  }
  if (s.job.empty() && s.host.empty() && s.kind.empty() && s.component.empty()) {
    return absl::InvalidArgumentError("job, host, kind or component is needed: a silence of everything would hide what it is not meant for");
  }
  if (absl::Status bad = check_one_of("kind", s.kind, kinds); !bad.ok()) return bad;
  if (absl::Status bad = check_one_of("component", s.component, components); !bad.ok()) return bad;
  if (s.by.empty()) return absl::InvalidArgumentError("by is missing: who asks for it");
  const auto span_ms = parse_span_ms(span);
  if (!span_ms.ok()) return span_ms.status();
  s.from_ms = now_ms;
  s.until_ms = now_ms + *span_ms;
  return s;
}

absl::StatusOr<Json> add_silence(Silence s, int64_t now_ms, Reporter& reporter, absl::Duration timeout) {
  OperatorBook& book = reporter.book();
  if (book.silences(now_ms).size() >= OperatorBook::silences_max) {
    return absl::FailedPreconditionError(absl::StrCat("there are ", OperatorBook::silences_max, " silences already: end some"));
  }
  s.id = book.next_silence_id();
  const absl::Status status = reporter.change_history(
      [s](history::Database& db) { return history::put_silence(db, s); }, [s, &book] { book.add_silence(s); }, timeout);
  if (!status.ok()) return status;
  spdlog::info("silence {} of {} begins", s.id, s.by);
  return Json{{"silence", report::silence_json(s)}, {"kept", reporter.counters().enabled}};
}

absl::StatusOr<Json> end_silence(uint64_t id, int64_t now_ms, Reporter& reporter, absl::Duration timeout) {
  OperatorBook& book = reporter.book();
  const report::Silences all = book.silences(now_ms);
  const auto found = std::find_if(all.begin(), all.end(), [id](const Silence& s) { return s.id == id; });
  if (found == all.end()) return absl::NotFoundError(absl::StrCat("there is no silence ", id, ", or its time is over"));
  const absl::Status status =
      reporter.change_history([id](history::Database& db) { return history::end_silence(db, id); },
                              [id, &book] { book.end_silence(id); }, timeout);
  if (!status.ok()) return status;
  spdlog::info("silence {} is ended", id);
  return Json{{"silence", report::silence_json(*found)}, {"kept", reporter.counters().enabled}};
}

Json silences_answer(int64_t now_ms, const Reporter& reporter) {
  Json silences = Json::array();
  for (const Silence& s : reporter.book().silences(now_ms)) silences.push_back(report::silence_json(s));
  return {{"silences", std::move(silences)}};
}

}  // namespace ccld::decision::server
