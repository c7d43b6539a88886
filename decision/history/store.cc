#include "decision/history/store.h"

#include <algorithm>

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "decision/history/acknowledgements.h"
#include "decision/history/schema.h"

namespace ccld::decision::history {
namespace {

// A reader that holds an old state keeps the log from starting anew; without one it is cut to this size.
constexpr int64_t log_bytes_max = 4 << 20;
// Removing goes on until this part of the limit is in use, so that it is not at work after every revision.
constexpr uint64_t trimmed_percent = 90;
// One part in so many of the closed incidents is removed at a time; all at once would hold up the reporting.
constexpr int64_t trim_steps = 20;
constexpr int64_t revisions_removed_at_a_time = 100;

absl::Status first_error(std::initializer_list<absl::Status> all) {
  for (const absl::Status& s : all)
    if (!s.ok()) return s;
  return absl::OkStatus();
}

// Of the job with the most to remove, the oldest.
constexpr char remove_closed[] =
    "DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE open=0 AND job="
    "(SELECT job FROM incidents JOIN revisions ON incident=id WHERE open=0 GROUP BY job ORDER BY count(*) DESC "
    "LIMIT 1) ORDER BY updated_ms LIMIT ?)";

// Numbers of two histories that became one: what they say of each must not be mixed.
absl::Status remove_of_another_run(Database& db, const Revision& r, uint64_t& removed) {
  auto remove = db.prepare("DELETE FROM incidents WHERE id=? AND run<>?");
  if (!remove.ok()) return remove.status();
  remove->bind(1, static_cast<int64_t>(r.incident));
  remove->bind(2, r.run);
  if (absl::Status s = remove->run(); !s.ok()) return s;
  removed += static_cast<uint64_t>(db.changes());
  return absl::OkStatus();
}

absl::Status put_revision(Database& db, const Revision& r) {
  auto incident = db.prepare(
      "INSERT INTO incidents(id, run, job, class, state, open, revision, opened_ms, updated_ms) "
      "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8) ON CONFLICT(id) DO UPDATE SET job=?3, class=?4, state=?5, open=?6, "
      "revision=?7, updated_ms=?8 WHERE ?7 > revision");
  if (!incident.ok()) return incident.status();
  incident->bind(1, static_cast<int64_t>(r.incident));
  incident->bind(2, r.run);
  incident->bind(3, r.job);
  incident->bind(4, r.fault_class);
  incident->bind(5, r.state);
  incident->bind(6, int64_t{r.open});
  incident->bind(7, int64_t{r.number});
  incident->bind(8, r.time_ms);
  if (absl::Status s = incident->run(); !s.ok()) return s;
  auto revision = db.prepare("INSERT INTO revisions(incident, revision, time_ms, run, verdict) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING");
  if (!revision.ok()) return revision.status();
  revision->bind(1, static_cast<int64_t>(r.incident));
  revision->bind(2, int64_t{r.number});
  revision->bind(3, r.time_ms);
  revision->bind(4, r.run);
  revision->bind(5, r.line);
  return revision->run();
}

// Runs a statement with one or two numbers and tells how many rows it changed.
absl::StatusOr<int64_t> change_rows(Database& db, absl::string_view sql, int64_t first) {
  auto transaction = Transaction::begin(db);
  if (!transaction.ok()) return transaction.status();
  auto statement = db.prepare(sql);
  if (!statement.ok()) return statement.status();
  statement->bind(1, first);
  if (absl::Status s = statement->run(); !s.ok()) return s;
  const int64_t changed = db.changes();
  if (absl::Status s = transaction->commit(); !s.ok()) return s;
  return changed;
}

}  // namespace

absl::Status put_revisions(Database& db, absl::Span<const Revision> revisions, uint64_t* removed) {
  uint64_t last_id = 0, gone = 0;
  for (const Revision& r : revisions) {
    if (absl::Status s = remove_of_another_run(db, r, gone); !s.ok()) return s;
    if (absl::Status s = put_revision(db, r); !s.ok()) return s;
    last_id = std::max(last_id, r.incident);
  }
  if (removed != nullptr) *removed += gone;
  return last_id == 0 ? absl::OkStatus() : raise_last_id(db, last_id);
}

absl::Status raise_last_id(Database& db, uint64_t id) {
  auto number = db.prepare("INSERT INTO numbers VALUES('last_id', ?1) ON CONFLICT(name) DO UPDATE SET value=max(value, ?1)");
  if (!number.ok()) return number.status();
  number->bind(1, static_cast<int64_t>(id));
  return number->run();
}

absl::StatusOr<std::unique_ptr<Store>> Store::open(const std::string& path, const Run& run) {
  auto database = Database::open(path, Database::Mode::create);
  if (!database.ok()) return database.status();
  Database& db = **database;
  if (absl::Status s = prepare_schema(db); !s.ok()) return s;
  if (absl::Status s = first_error({db.run("PRAGMA synchronous=FULL"), db.run("PRAGMA foreign_keys=ON"),
                                    db.run(absl::StrCat("PRAGMA journal_size_limit=", log_bytes_max))});
      !s.ok()) {
    return s;
  }
  auto check = db.prepare("PRAGMA quick_check(1)");
  if (!check.ok()) return check.status();
  const auto row = check->step();
  if (!row.ok()) return row.status();
  if (*row && check->text(0) != "ok") return absl::DataLossError(absl::StrCat("'", path, "': ", check->text(0)));
  check->reset();
  auto store = std::unique_ptr<Store>(new Store(*std::move(database), run.id));
  if (absl::Status s = store->begin_run(run); !s.ok()) return s;
  return store;
}

absl::Status Store::begin_run(const Run& run) {
  const auto last = database_->integer("SELECT value FROM numbers WHERE name='last_id'");
  if (!last.ok()) return last.status();
  last_id_ = static_cast<uint64_t>(*last);
  auto insert = database_->prepare("INSERT INTO runs(run, version, host, pid, started_ms) VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING");
  if (!insert.ok()) return insert.status();
  insert->bind(1, run.id);
  insert->bind(2, run.version);
  insert->bind(3, run.host);
  insert->bind(4, run.pid);
  insert->bind(5, run.started_ms);
  return insert->run();
}

absl::StatusOr<std::vector<std::string>> Store::left_open() {
  auto select = database_->prepare(
      "SELECT verdict FROM incidents JOIN revisions ON incident=id AND revisions.revision=incidents.revision "
      "WHERE open=1 AND incidents.run<>? ORDER BY id");
  if (!select.ok()) return select.status();
  select->bind(1, run_);
  std::vector<std::string> lines;
  for (;;) {
    const auto row = select->step();
    if (!row.ok()) return row.status();
    if (!*row) return lines;
    lines.push_back(select->text(0));
  }
}

absl::Status Store::append(absl::Span<const Revision> revisions, absl::Span<const OwnEntry> entries) {
  if (revisions.empty() && entries.empty()) return absl::OkStatus();
  auto transaction = Transaction::begin(*database_);
  if (!transaction.ok()) return transaction.status();
  if (absl::Status s = put_revisions(*database_, revisions); !s.ok()) return s;
  for (const OwnEntry& e : entries) {
    if (e.last_id != 0) {
      if (absl::Status s = raise_last_id(*database_, e.last_id); !s.ok()) return s;
    }
    if (const auto advanced = advance_log_position(*database_, e.at); !advanced.ok()) return advanced.status();
  }
  if (absl::Status s = transaction->commit(); !s.ok()) return s;
  for (const Revision& r : revisions) last_id_ = std::max(last_id_, r.incident);
  return absl::OkStatus();
}

absl::Status Store::set_recording(uint64_t incident, const std::string& path) {
  auto update = database_->prepare("UPDATE incidents SET recording=?2 WHERE id=?1");
  if (!update.ok()) return update.status();
  update->bind(1, static_cast<int64_t>(incident));
  update->bind(2, path);
  return update->run();
}

absl::Status Store::change(const std::function<absl::Status(Database&)>& change) {
  auto transaction = Transaction::begin(*database_);
  if (!transaction.ok()) return transaction.status();
  if (absl::Status s = change(*database_); !s.ok()) return s;
  return transaction->commit();
}

absl::Status Store::read(const std::function<absl::Status(Database&)>& read) {
  auto transaction = Transaction::begin_reading(*database_);
  if (!transaction.ok()) return transaction.status();
  if (absl::Status s = read(*database_); !s.ok()) return s;
  return transaction->commit();
}

absl::StatusOr<report::Acknowledgements> Store::acknowledgements() { return acknowledgements_of_open(*database_); }

absl::Status Store::end_run(int64_t now_ms) {
  auto update = database_->prepare("UPDATE runs SET ended_ms=?2 WHERE run=?1");
  if (!update.ok()) return update.status();
  update->bind(1, run_);
  update->bind(2, now_ms);
  return update->run();
}

absl::StatusOr<uint64_t> Store::bytes() {
  const auto pages = database_->integer("PRAGMA page_count"), spare = database_->integer("PRAGMA freelist_count"),
             size = database_->integer("PRAGMA page_size");
  if (absl::Status s = first_error({pages.status(), spare.status(), size.status()}); !s.ok()) return s;
  return static_cast<uint64_t>((*pages - *spare) * *size);
}

absl::Status Store::copy_to(const std::string& path) {
  auto copy = database_->prepare("VACUUM INTO ?");
  if (!copy.ok()) return copy.status();
  copy->bind(1, path);
  return copy->run();
}

absl::StatusOr<uint64_t> Store::trim(const Limits& limits, int64_t now_ms) {
  uint64_t removed = 0;
  const auto aged = change_rows(*database_, "DELETE FROM incidents WHERE open=0 AND updated_ms<?", now_ms - limits.age_max_ms);
  if (!aged.ok()) return aged.status();
  removed += static_cast<uint64_t>(*aged);
  int64_t changed = *aged;
  auto used = bytes();
  if (!used.ok()) return used.status();
  if (*used > limits.bytes_max) {
    const auto closed = database_->integer("SELECT count(*) FROM incidents WHERE open=0");
    if (!closed.ok()) return closed.status();
    const int64_t at_a_time = std::max<int64_t>(1, *closed / trim_steps);
    while (*used > limits.bytes_max / 100 * trimmed_percent) {
      auto gone = change_rows(*database_, remove_closed, at_a_time);
      if (!gone.ok()) return gone.status();
      removed += static_cast<uint64_t>(*gone);
      if (*gone == 0) {
        gone = change_rows(*database_,
                      "DELETE FROM revisions WHERE rowid IN (SELECT revisions.rowid FROM revisions JOIN incidents ON id=incident "
                      "WHERE revisions.revision<incidents.revision ORDER BY time_ms LIMIT ?)",
                      revisions_removed_at_a_time);
        if (!gone.ok()) return gone.status();
        if (*gone == 0) break;  // one revision of each open incident remains
      }
      changed += *gone;
      used = bytes();
      if (!used.ok()) return used.status();
    }
  }
  // The others are named by an incident, or began not long ago.
  const auto runs = change_rows(*database_, "DELETE FROM runs WHERE started_ms<? AND run NOT IN (SELECT run FROM incidents)",
                           now_ms - limits.age_max_ms);
  if (!runs.ok()) return runs.status();
  if (changed > 0) {
    if (absl::Status s = database_->run("PRAGMA incremental_vacuum"); !s.ok()) return s;
  }
  return removed;
}

}  // namespace ccld::decision::history
