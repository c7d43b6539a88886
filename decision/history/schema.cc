#include "decision/history/schema.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace ccld::decision::history {
namespace {

constexpr int64_t application_id = 0x63636c64;  // "ccld", in the file's header

// What each version added to the one before it, the first one first. A step is never changed after a release: databases were
// made by it.
constexpr const char* steps[] = {
    R"(
  CREATE TABLE runs(
    run TEXT PRIMARY KEY, version TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
    started_ms INTEGER NOT NULL, ended_ms INTEGER);
  CREATE TABLE incidents(
    id INTEGER PRIMARY KEY, run TEXT NOT NULL, job TEXT NOT NULL, class TEXT NOT NULL, state TEXT NOT NULL,
    open INTEGER NOT NULL, revision INTEGER NOT NULL, opened_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
    recording TEXT);
  CREATE INDEX incidents_by_age ON incidents(open, updated_ms);
  CREATE TABLE revisions(
    incident INTEGER NOT NULL REFERENCES incidents(id) ON DELETE CASCADE, revision INTEGER NOT NULL,
    time_ms INTEGER NOT NULL, run TEXT NOT NULL, verdict TEXT NOT NULL, UNIQUE(incident, revision));
  CREATE TABLE numbers(name TEXT PRIMARY KEY, value INTEGER NOT NULL);
)",
    R"(
  CREATE TABLE acknowledgements(
    incident INTEGER PRIMARY KEY REFERENCES incidents(id) ON DELETE CASCADE, time_ms INTEGER NOT NULL,
    by TEXT NOT NULL, note TEXT NOT NULL);
)",
    R"(
  CREATE TABLE deliveries(incident INTEGER PRIMARY KEY REFERENCES incidents(id) ON DELETE CASCADE, revision INTEGER NOT NULL);
)",
    R"(
  CREATE TABLE silences(
    id INTEGER PRIMARY KEY, job TEXT NOT NULL, host TEXT NOT NULL, kind TEXT NOT NULL, component TEXT NOT NULL,
    from_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL, by TEXT NOT NULL, note TEXT NOT NULL);
)"};
static_assert(std::size(steps) == schema_version);

absl::Status refuse_version(const Database& database, int64_t version) {
  return absl::FailedPreconditionError(absl::StrCat("'", database.path(), "' is of version ", version, ", this ccld knows version ", schema_version));
}

// All or nothing.
absl::Status run_steps_after(Database& database, int64_t version) {
  auto transaction = Transaction::begin(database);
  if (!transaction.ok()) return transaction.status();
  for (int64_t v = version; v < schema_version; ++v) {
    if (absl::Status s = database.run(steps[v]); !s.ok()) return s;
  }
  if (absl::Status s = database.run(absl::StrCat("PRAGMA application_id=", application_id)); !s.ok()) return s;
  if (absl::Status s = database.run(absl::StrCat("PRAGMA user_version=", schema_version)); !s.ok()) return s;
  return transaction->commit();
}

}  // namespace

absl::Status prepare_schema(Database& database) {
  const auto table_count = database.integer("SELECT count(*) FROM sqlite_schema");
  if (!table_count.ok()) return table_count.status();
  if (*table_count > 0) {
    const auto version = check_schema(database);
    if (!version.ok()) return version.status();
    return *version == schema_version ? absl::OkStatus() : run_steps_after(database, *version);
  }
  // Pages of removed incidents go back to the file system; the mode is fixed before the first table.
  if (absl::Status s = database.run("PRAGMA auto_vacuum=INCREMENTAL"); !s.ok()) return s;
  // The log outlives a kill of the process, and readers do not wait for the writer.
  if (absl::Status s = database.run("PRAGMA journal_mode=WAL"); !s.ok()) return s;
  return run_steps_after(database, 0);
}

absl::StatusOr<int64_t> check_schema(Database& database) {
  const auto application = database.integer("PRAGMA application_id");
  if (!application.ok()) return application.status();
  if (*application != application_id) {
    return absl::FailedPreconditionError(absl::StrCat("'", database.path(), "' is not a history of ccld"));
  }
  const auto version = database.integer("PRAGMA user_version");
  if (!version.ok()) return version.status();
  if (*version < 1 || *version > schema_version) return refuse_version(database, *version);
  return version;
}

}  // namespace ccld::decision::history
