#include "decision/report/silence.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "decision/model/names.h"
#include "decision/report/headline.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

std::string time_text(int64_t ms) { return WallClock{}.text(ms * ns_per_ms); }

bool contains(const std::vector<std::string>& all, const std::string& one) { return std::find(all.begin(), all.end(), one) != all.end(); }

bool fits(const Silence& s, const SilenceFacts& f) {
  return (s.job.empty() || s.job == f.job) && (s.kind.empty() || s.kind == f.kind) && (s.host.empty() || contains(f.hosts, s.host)) &&
         (s.component.empty() || contains(f.components, s.component));
}

// As it is, not made printable: it is compared.
std::string raw(const Json& object, const char* key) {
  const Json& value = member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

}  // namespace

SilenceFacts silence_facts(const Incident& i) {
  SilenceFacts f{.job = i.job, .kind = absl::AsciiStrToLower(kind_text(i.fault))};
  for (const Culprit& c : i.culprits) {
    f.hosts.push_back(c.host);
    f.hosts.push_back(c.peer_host);
    f.components.push_back(name(c.component));
  }
  return f;
}

SilenceFacts silence_facts(const Json& verdict) {
  SilenceFacts f{.job = raw(verdict, "job"), .kind = absl::AsciiStrToLower(raw(verdict, "kind"))};
  for (const Json& c : member(verdict, "culprits")) {
    f.hosts.push_back(raw(c, "host"));
    f.hosts.push_back(raw(c, "peer_host"));
    f.components.push_back(raw(c, "component"));
  }
  return f;
}

const Silence* silence_of(const SilenceFacts& facts, const Silences& silences, int64_t now_ms) {
  for (const Silence& s : silences)
    if (now_ms < s.until_ms && fits(s, facts)) return &s;
  return nullptr;
}

void set_silenced(Json& verdict, const Silences& silences, int64_t now_ms) {
  const std::string state = text_of(verdict, "state");
  const bool open = state == "suspected" || state == "confirmed";
  const Silence* const s = open ? silence_of(silence_facts(verdict), silences, now_ms) : nullptr;
  verdict["silenced"] = s == nullptr ? Json(nullptr) : Json({{"silence", s->id}, {"until", time_text(s->until_ms)}, {"by", s->by}, {"note", s->note}});
}

Json silence_json(const Silence& s) {
  const auto text = [](const std::string& t) { return t.empty() ? Json(nullptr) : Json(t); };
  return {{"silence", s.id},           {"job", text(s.job)},       {"host", text(s.host)},       {"kind", text(s.kind)},
          {"component", text(s.component)}, {"from", time_text(s.from_ms)}, {"until", time_text(s.until_ms)}, {"by", s.by}, {"note", s.note}};
}

std::string silenced_text(const Json& verdict) {
  if (!has(verdict, "silenced")) return "";
  const Json& s = member(verdict, "silenced");
  const std::string note = text_of(s, "note");
  return absl::StrCat("silence ", text_of(s, "silence"), " of ", text_of(s, "by", "?"), " until ", text_of(s, "until"), note.empty() ? "" : ": ", note);
}

std::string silence_list_text(const Json& document) {
  const Json& silences = member(document, "silences");
  if (silences.empty()) return "no silences\n";
  std::vector<std::vector<std::string>> rows = {{"SILENCE", "JOB", "HOST", "KIND", "COMPONENT", "UNTIL", "BY", "NOTE"}};
  for (const Json& s : silences) {
    rows.push_back({text_of(s, "silence"), text_of(s, "job", "any"), text_of(s, "host", "any"), text_of(s, "kind", "any"), text_of(s, "component", "any"),
                    text_of(s, "until"), text_of(s, "by"), text_of(s, "note")});
  }
  return table(rows, {true, false, false, false, false, false, false, false});
}

}  // namespace ccld::decision::report
