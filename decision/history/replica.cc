#include "decision/history/replica.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "decision/history/acknowledgements.h"
#include "decision/history/deliveries.h"
#include "decision/history/revision.h"
#include "decision/history/store.h"
#include "decision/report/bounded_json.h"
#include "decision/report/text_format.h"

namespace ccld::decision::history {
namespace {

using report::Json;

Json silence_entry(const report::Silence& s) {
  return {
      {"id", s.id},           {"job", s.job},           {"host", s.host}, {"kind", s.kind}, {"component", s.component},
      {"from_ms", s.from_ms}, {"until_ms", s.until_ms}, {"by", s.by},     {"note", s.note}};
}

report::Silence silence_of(const Json& j) {
  return {.id = report::number_of(j, "id"),
          .job = report::raw_text_of(j, "job"),
          .host = report::raw_text_of(j, "host"),
          .kind = report::raw_text_of(j, "kind"),
          .component = report::raw_text_of(j, "component"),
          .from_ms = static_cast<int64_t>(report::number_of(j, "from_ms")),
          .until_ms = static_cast<int64_t>(report::number_of(j, "until_ms")),
          .by = report::raw_text_of(j, "by"),
          .note = report::raw_text_of(j, "note")};
}

absl::Status apply_revisions(Database& db, const Json& verdicts, uint64_t* removed) {
  std::vector<Revision> revisions;
  for (const Json& verdict : verdicts) {
    if (auto r = revision_of(verdict); r.has_value()) revisions.push_back(*std::move(r));
  }
  return put_revisions(db, revisions, removed);
}

absl::Status apply_leads(Database& db, const Json& leads) {
  const uint64_t last_id = report::number_of(leads, "last_id");
  return last_id > 0 && last_id < told_ids_end ? raise_last_id(db, last_id) : absl::OkStatus();
}

report::Acknowledgement acknowledgement_of(const Json& j) {
  return {.time_ms = static_cast<int64_t>(report::number_of(j, "time_ms")),
          .by = report::raw_text_of(j, "by"),
          .note = report::raw_text_of(j, "note")};
}

absl::Status apply_operators(Database& db, const Json& all) {
  // All of it is read before anything changes: other entries of the same transaction stay. And each once: a node that
  // cannot write an entry of the log could not go on.
  report::Acknowledgements acknowledged;
  std::map<uint64_t, report::Silence> silenced;
  for (const Json& a : report::member(all, "acknowledgements"))
    acknowledged.emplace(report::number_of(a, "incident"), acknowledgement_of(a));
  for (const Json& s : report::member(all, "silences")) silenced.emplace(report::number_of(s, "id"), silence_of(s));
  const auto last_silence = static_cast<int64_t>(report::number_of(all, "last_silence"));
  // Of open incidents: what was said of one that has closed cannot be changed, and who leads does not name it. A log
  // that is read again says of it what was so before.
  if (absl::Status s = db.run("DELETE FROM acknowledgements WHERE incident IN (SELECT id FROM incidents WHERE open=1);"
                              "DELETE FROM silences");
      !s.ok())
    return s;
  auto open = db.prepare("SELECT 1 FROM incidents WHERE id=? AND open=1");
  if (!open.ok()) return open.status();
  for (const auto& [incident, a] : acknowledged) {
    open->reset();
    open->bind(1, static_cast<int64_t>(incident));
    const auto found = open->step();
    if (!found.ok()) return found.status();
    if (!*found) continue;
    const absl::Status s = put_acknowledgement(db, incident, a);
    if (!s.ok() && !absl::IsNotFound(s)) return s;  // its incident has been removed here
  }
  for (const auto& [id, silence] : silenced) {
    if (absl::Status s = put_silence(db, silence); !s.ok()) return s;
  }
  auto number =
      db.prepare("INSERT INTO numbers VALUES('last_silence', ?1) ON CONFLICT(name) DO UPDATE SET value=max(value, ?1)");
  if (!number.ok()) return number.status();
  number->bind(1, last_silence);
  return number->run();
}

}  // namespace

Json leads_entry(const std::string& node, const std::string& run, uint64_t last_id) {
  return {{"leads", {{"node", node}, {"run", run}, {"last_id", last_id}}}};
}

Json revisions_entry(absl::Span<const Revision> revisions) {
  Json verdicts = Json::array();
  for (const Revision& r : revisions) verdicts.push_back(Json::parse(r.line, nullptr, false));
  return {{"revisions", std::move(verdicts)}};
}

Json operators_entry(const report::Acknowledgements& acknowledgements, const report::Silences& silences,
                     uint64_t last_silence_id) {
  Json all = Json::array(), silenced = Json::array();
  for (const auto& [incident, a] : acknowledgements)
    all.push_back({{"incident", incident}, {"time_ms", a.time_ms}, {"by", a.by}, {"note", a.note}});
  for (const report::Silence& s : silences) silenced.push_back(silence_entry(s));
  return {
      {"operators",
       {{"acknowledgements", std::move(all)}, {"silences", std::move(silenced)}, {"last_silence", last_silence_id}}}};
}

Json delivered_entry(uint64_t incident, uint64_t revision) {
  return {{"delivered", {{"incident", incident}, {"revision", revision}}}};
}

absl::Status apply_entry(Database& db, const Json& entry, uint64_t* removed) try {
  if (!entry.is_object()) return absl::InvalidArgumentError("an entry of the log is no JSON object");
  if (const auto it = entry.find("revisions"); it != entry.end() && it->is_array())
    return apply_revisions(db, *it, removed);
  if (const auto it = entry.find("leads"); it != entry.end() && it->is_object()) return apply_leads(db, *it);
  if (const auto it = entry.find("operators"); it != entry.end() && it->is_object()) return apply_operators(db, *it);
  if (const auto it = entry.find("delivered"); it != entry.end() && it->is_object())
    return set_delivered(db, report::number_of(*it, "incident"), report::number_of(*it, "revision"));
  return absl::OkStatus();
} catch (const Json::exception& e) {
  return absl::InvalidArgumentError(absl::StrCat("an entry of the log cannot be read: ", e.what()));
}

absl::StatusOr<Standing> standing_of(Database& db, int64_t now_ms) {
  Standing standing;
  const auto log = log_position_of(db);
  if (!log.ok()) return log.status();
  standing.log = *log;
  const auto last = db.integer("SELECT value FROM numbers WHERE name='last_id'");
  if (!last.ok()) return last.status();
  standing.last_id = static_cast<uint64_t>(*last);
  auto select = db.prepare(
      "SELECT verdict FROM incidents JOIN revisions ON incident=id AND revisions.revision=incidents.revision WHERE "
      "open=1 ORDER BY id");
  if (!select.ok()) return select.status();
  for (;;) {
    const auto row = select->step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    auto verdict = report::parse_bounded(select->text(0));
    if (verdict.ok() && is_verdict(*verdict)) standing.open.push_back(*std::move(verdict));
  }
  auto acknowledgements = acknowledgements_of_open(db);
  if (!acknowledgements.ok()) return acknowledgements.status();
  standing.acknowledgements = *std::move(acknowledgements);
  auto silences = silences_in_force(db, now_ms);
  if (!silences.ok()) return silences.status();
  standing.silences = *std::move(silences);
  return standing;
}

}  // namespace ccld::decision::history
