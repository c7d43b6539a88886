#include "decision/history/reader.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/history/acknowledgements.h"
#include "decision/history/revision.h"
#include "decision/history/schema.h"
#include "decision/report/bounded_json.h"
#include "decision/report/text_format.h"

namespace ccld::decision::history {
namespace {

using report::Json;

// A line, the path of the recording and the acknowledgement, as the columns of the row.
absl::StatusOr<Json> verdict_of(const Database& db, const Statement& row) {
  auto parsed = report::parse_bounded(row.text(0));
  if (!parsed.ok() || !is_verdict(*parsed))
    return absl::DataLossError(absl::StrCat("'", db.path(), "': a verdict in it is damaged"));
  Json& verdict = *parsed;
  // Recordings have bounds of their own: a file may be gone.
  const std::string recording = row.text(1);
  std::error_code ignored;
  const bool there = !recording.empty() && std::filesystem::exists(recording, ignored);
  verdict["recording"] = there ? Json(recording) : Json(nullptr);
  verdict["acknowledged"] = acknowledgement_of(row, 2);
  return parsed;
}

absl::StatusOr<std::vector<Json>> verdicts_of(const Database& db, Statement& statement) {
  std::vector<Json> verdicts;
  for (;;) {
    const auto row = statement.step();
    if (!row.ok()) return row.status();
    if (!*row) return verdicts;
    auto verdict = verdict_of(db, statement);
    if (!verdict.ok()) return verdict.status();
    verdicts.push_back(*std::move(verdict));
  }
}

constexpr char condition[] =
    "(?1 IS NULL OR open=1 OR updated_ms>=?1) AND (?2='' OR job=?2) AND (?3='' OR class=?3) AND (?4=0 OR open=1)";

void bind_condition(Statement& s, const Filter& f) {
  if (f.since_ms.has_value()) s.bind(1, *f.since_ms);
  else s.bind_null(1);
  s.bind(2, f.job);
  s.bind(3, f.fault_class);
  s.bind(4, int64_t{f.open});
}

}  // namespace

absl::StatusOr<HistoryReader> HistoryReader::open(const std::string& path) {
  auto database = Database::open(path, Database::Mode::read);
  if (!database.ok()) return database.status();
  const auto version = check_schema(**database);
  if (!version.ok()) return version.status();
  return HistoryReader(*std::move(database), *version);
}

std::string HistoryReader::columns() const {
  return absl::StrCat("verdict, recording, ", version_ >= version_with_acknowledgements ? acknowledgement_columns : "NULL, NULL, NULL");
}

std::string HistoryReader::joins() const {
  return version_ >= version_with_acknowledgements ? " LEFT JOIN acknowledgements ON acknowledgements.incident=id" : "";
}

absl::StatusOr<Page> HistoryReader::list(const Filter& f) {
  // Both queries see one state of the database.
  if (absl::Status s = database_->run("BEGIN"); !s.ok()) return s;
  Page page;
  auto count = database_->prepare(absl::StrCat("SELECT count(*) FROM incidents WHERE ", condition));
  if (!count.ok()) return count.status();
  bind_condition(*count, f);
  if (const auto row = count->step(); !row.ok()) return row.status();
  page.matching = static_cast<uint64_t>(count->integer(0));
  count->reset();

  // One more than asked for tells whether there is a next page.
  auto select = database_->prepare(
      absl::StrCat("SELECT ", columns(), " FROM (SELECT id, recording, revision FROM incidents WHERE ", condition, " AND id>?5 ORDER BY id ",
                   f.after.has_value() ? "ASC" : "DESC",
                   " LIMIT ?6) AS i JOIN revisions AS r ON r.incident=i.id AND r.revision=i.revision",
                   joins(), " ORDER BY i.id"));
  if (!select.ok()) return select.status();
  bind_condition(*select, f);
  select->bind(5, static_cast<int64_t>(f.after.value_or(0)));
  select->bind(6, static_cast<int64_t>(f.limit + (f.after.has_value() ? 1 : 0)));
  auto verdicts = verdicts_of(*database_, *select);
  if (!verdicts.ok()) return verdicts.status();
  if (absl::Status s = database_->run("COMMIT"); !s.ok()) return s;
  page.incidents = *std::move(verdicts);
  if (page.incidents.size() > f.limit) {
    page.incidents.pop_back();
    page.next = report::number_of(page.incidents.back(), "incident");
  }
  return page;
}

absl::StatusOr<Json> HistoryReader::newest(uint64_t incident) {
  auto select = database_->prepare(
      absl::StrCat("SELECT ", columns(), " FROM incidents JOIN revisions ON revisions.incident=id AND revisions.revision=incidents.revision", joins(),
                   " WHERE id=?"));
  if (!select.ok()) return select.status();
  select->bind(1, static_cast<int64_t>(incident));
  auto found = verdicts_of(*database_, *select);
  if (!found.ok()) return found.status();
  if (found->empty()) return absl::NotFoundError(absl::StrCat("there is no incident ", incident));
  return std::move(found->front());
}

absl::StatusOr<std::vector<Json>> HistoryReader::revisions(uint64_t incident) {
  auto select = database_->prepare(
      absl::StrCat("SELECT ", columns(), " FROM revisions JOIN incidents ON id=revisions.incident", joins(),
                   " WHERE id=? ORDER BY revisions.revision"));
  if (!select.ok()) return select.status();
  select->bind(1, static_cast<int64_t>(incident));
  auto found = verdicts_of(*database_, *select);
  if (!found.ok()) return found.status();
  if (found->empty()) return absl::NotFoundError(absl::StrCat("there is no incident ", incident));
  return *std::move(found);
}

}  // namespace ccld::decision::history
