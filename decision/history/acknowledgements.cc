#include "decision/history/acknowledgements.h"

#include "absl/strings/str_cat.h"

namespace ccld::decision::history {

absl::Status put_acknowledgement(Database& db, uint64_t incident, const report::Acknowledgement& a) {
  // Without its incident a row would never go.
  auto put = db.prepare(
      "INSERT INTO acknowledgements(incident, time_ms, by, note) SELECT id, ?2, ?3, ?4 FROM incidents WHERE id=?1 "
      "ON CONFLICT(incident) DO UPDATE SET time_ms=?2, by=?3, note=?4");
  if (!put.ok()) return put.status();
  put->bind(1, static_cast<int64_t>(incident));
  put->bind(2, a.time_ms);
  put->bind(3, a.by);
  put->bind(4, a.note);
  if (absl::Status s = put->run(); !s.ok()) return s;
  return db.changes() > 0 ? absl::OkStatus() : absl::NotFoundError(absl::StrCat("incident ", incident, " is not stored"));
}

absl::Status remove_acknowledgement(Database& db, uint64_t incident) {
  auto remove = db.prepare("DELETE FROM acknowledgements WHERE incident=?");
  if (!remove.ok()) return remove.status();
  remove->bind(1, static_cast<int64_t>(incident));
  return remove->run();
}

absl::StatusOr<report::Acknowledgements> acknowledgements_of_open(Database& db) {
  auto select = db.prepare("SELECT incident, time_ms, by, note FROM acknowledgements JOIN incidents ON id=incident WHERE open=1");
  if (!select.ok()) return select.status();
  report::Acknowledgements all;
  for (;;) {
    const auto row = select->step();
    if (!row.ok()) return row.status();
    if (!*row) return all;
    all[static_cast<uint64_t>(select->integer(0))] = {.time_ms = select->integer(1), .by = select->text(2), .note = select->text(3)};
  }
}

report::Json acknowledgement_of(const Statement& row, int column) {
  if (row.is_null(column)) return nullptr;
  return report::acknowledgement_json({.time_ms = row.integer(column), .by = row.text(column + 1), .note = row.text(column + 2)});
}

}  // namespace ccld::decision::history
