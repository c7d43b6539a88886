#include "decision/history/silences.h"

namespace ccld::decision::history {

absl::Status put_silence(Database& db, const report::Silence& s) {
  auto put = db.prepare("INSERT INTO silences(id, job, host, kind, component, from_ms, until_ms, by, note) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!put.ok()) return put.status();
  int column = 0;
  put->bind(++column, static_cast<int64_t>(s.id));
  for (const std::string* text : {&s.job, &s.host, &s.kind, &s.component}) put->bind(++column, *text);
  put->bind(++column, s.from_ms);
  put->bind(++column, s.until_ms);
  put->bind(++column, s.by);
  put->bind(++column, s.note);
  if (absl::Status status = put->run(); !status.ok()) return status;
  auto number = db.prepare("INSERT INTO numbers VALUES('last_silence', ?1) ON CONFLICT(name) DO UPDATE SET value=max(value, ?1)");
  if (!number.ok()) return number.status();
  number->bind(1, static_cast<int64_t>(s.id));
  return number->run();
}

absl::Status end_silence(Database& db, uint64_t id) {
  auto remove = db.prepare("DELETE FROM silences WHERE id=?");
  if (!remove.ok()) return remove.status();
  remove->bind(1, static_cast<int64_t>(id));
  return remove->run();
}

absl::StatusOr<StoredSilences> take_silences(Database& db, int64_t now_ms) {
  auto remove = db.prepare("DELETE FROM silences WHERE until_ms<=?");
  if (!remove.ok()) return remove.status();
  remove->bind(1, now_ms);
  if (absl::Status s = remove->run(); !s.ok()) return s;
  return silences_in_force(db, now_ms);
}

absl::StatusOr<StoredSilences> silences_in_force(Database& db, int64_t now_ms) {
  StoredSilences stored;
  const auto last = db.integer("SELECT value FROM numbers WHERE name='last_silence'");
  if (!last.ok()) return last.status();
  stored.last_id = static_cast<uint64_t>(*last);
  auto select = db.prepare(
      "SELECT id, job, host, kind, component, from_ms, until_ms, by, note FROM silences WHERE until_ms>? ORDER BY id");
  if (!select.ok()) return select.status();
  select->bind(1, now_ms);
  for (;;) {
    const auto row = select->step();
    if (!row.ok()) return row.status();
    if (!*row) return stored;
    stored.silences.push_back({.id = static_cast<uint64_t>(select->integer(0)), .job = select->text(1), .host = select->text(2), .kind = select->text(3),
                               .component = select->text(4), .from_ms = select->integer(5), .until_ms = select->integer(6), .by = select->text(7),
                               .note = select->text(8)});
  }
}

}  // namespace ccld::decision::history
