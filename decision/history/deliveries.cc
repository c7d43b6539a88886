#include "decision/history/deliveries.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "decision/history/acknowledgements.h"
#include "decision/history/revision.h"
#include "decision/report/bounded_json.h"

namespace ccld::decision::history {
namespace {

// From the incidents that changed since then, by their index: those of a year are many. CROSS JOIN keeps that order.
constexpr char waiting[] =
    " FROM incidents LEFT JOIN deliveries ON deliveries.incident=incidents.id"
    " LEFT JOIN acknowledgements ON acknowledgements.incident=incidents.id"
    " CROSS JOIN revisions ON revisions.incident=incidents.id"
    " AND revisions.revision>coalesce(deliveries.revision, 0)"
    " WHERE incidents.open IN (0, 1) AND incidents.updated_ms>=?1 AND revisions.time_ms>=?1"
    " AND revisions.time_ms>=(SELECT value FROM numbers WHERE name='webhook_since_ms')";

}  // namespace

absl::Status begin_deliveries(Database& db, int64_t now_ms) {
  auto begin = db.prepare("INSERT INTO numbers VALUES('webhook_since_ms', ?) ON CONFLICT DO NOTHING");
  if (!begin.ok()) return begin.status();
  begin->bind(1, now_ms);
  return begin->run();
}

absl::Status end_deliveries(Database& db) { return db.run("DELETE FROM numbers WHERE name='webhook_since_ms'; DELETE FROM deliveries"); }

absl::StatusOr<Undelivered> undelivered(Database& db, int64_t since_ms, uint64_t max) {
  Undelivered result;
  auto count = db.prepare(absl::StrCat("SELECT count(*)", waiting));
  if (!count.ok()) return count.status();
  count->bind(1, since_ms);
  if (const auto row = count->step(); !row.ok()) return row.status();
  const auto all = static_cast<uint64_t>(count->integer(0));
  count->reset();
  result.left_out = all - std::min(all, max);

  auto select = db.prepare(absl::StrCat("SELECT verdict, recording, ", acknowledgement_columns, waiting, " ORDER BY revisions.rowid DESC LIMIT ?2"));
  if (!select.ok()) return select.status();
  select->bind(1, since_ms);
  select->bind(2, static_cast<int64_t>(max));
  for (;;) {
    const auto row = select->step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    auto parsed = report::parse_bounded(select->text(0));
    if (!parsed.ok() || !is_verdict(*parsed)) continue;
    report::Json& verdict = *parsed;
    verdict["recording"] = select->is_null(1) ? report::Json(nullptr) : report::Json(select->text(1));
    verdict["acknowledged"] = acknowledgement_of(*select, 2);
    result.verdicts.push_back(std::move(verdict));
  }
  std::reverse(result.verdicts.begin(), result.verdicts.end());
  return result;
}

absl::Status set_delivered(Database& db, uint64_t incident, uint64_t revision) {
  auto put = db.prepare(
      "INSERT INTO deliveries(incident, revision) SELECT id, ?2 FROM incidents WHERE id=?1 "
      "ON CONFLICT(incident) DO UPDATE SET revision=max(revision, ?2)");
  if (!put.ok()) return put.status();
  put->bind(1, static_cast<int64_t>(incident));
  put->bind(2, static_cast<int64_t>(revision));
  return put->run();
}

}  // namespace ccld::decision::history
