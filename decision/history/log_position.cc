#include "decision/history/log_position.h"

namespace ccld::decision::history {

absl::StatusOr<LogPosition> log_position_of(Database& db) {
  const auto made = db.integer("SELECT value FROM numbers WHERE name='log_made'");
  if (!made.ok()) return made.status();
  const auto applied = db.integer("SELECT value FROM numbers WHERE name='log_applied'");
  if (!applied.ok()) return applied.status();
  return LogPosition{*made, static_cast<uint64_t>(*applied)};
}

absl::Status set_log_position(Database& db, const LogPosition& p) {
  auto set = db.prepare(
      "INSERT INTO numbers VALUES('log_made', ?1), ('log_applied', ?2) "
      "ON CONFLICT(name) DO UPDATE SET value=excluded.value");
  if (!set.ok()) return set.status();
  set->bind(1, p.made_ns);
  set->bind(2, static_cast<int64_t>(p.entry));
  return set->run();
}

absl::StatusOr<bool> advance_log_position(Database& db, const LogPosition& entry) {
  const auto now = log_position_of(db);
  if (!now.ok()) return now.status();
  if (!is_next(entry, *now)) return false;
  if (absl::Status s = set_log_position(db, entry); !s.ok()) return s;
  return true;
}

}  // namespace ccld::decision::history
