#include "decision/server/incidents_api.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "decision/history/filter.h"
#include "decision/history/reader.h"
#include "decision/report/mitigation.h"
#include "decision/report/text_format.h"
#include "decision/server/clock.h"

namespace ccld::decision::server {
namespace {

using report::Json;

Json verdict_of(const Incident& incident, const report::Snapshot& s) {
  Json verdict = report::verdict_json(incident, s.now_ns, s.clock);
  report::set_acknowledged(verdict, s.acknowledgements);
  return verdict;
}

// Reported, and not in the database yet.
std::vector<Json> waiting_in(const Reporter& reporter) {
  std::vector<Json> verdicts = reporter.waiting();
  const report::Acknowledgements acknowledgements = reporter.book().acknowledgements();
  for (Json& verdict : verdicts) report::set_acknowledged(verdict, acknowledgements);
  return verdicts;
}

std::vector<Json> of_snapshot(const report::Snapshot& s) {
  std::vector<Json> verdicts;
  for (const Incident& incident : s.incidents) {
    if (incident.revision > 0) verdicts.push_back(verdict_of(incident, s));
  }
  return verdicts;
}

struct OpenHistory {
  ReadTurns::Turn turn;  // until the reader is closed
  history::HistoryReader reader;
};

// A status where there is none, or where it cannot be read; DeadlineExceeded where its disk hangs.
absl::StatusOr<OpenHistory> open_history(const Reporter& reporter) {
  const report::HistoryCounters counters = reporter.counters();
  if (!counters.enabled) return absl::UnavailableError("no history is kept");
  auto turn = reporter.read_turns().take();
  if (!turn.has_value()) return absl::DeadlineExceededError("the disk of the history hangs");
  auto reader = history::HistoryReader::open(counters.database);
  if (!reader.ok()) return reader.status();
  return OpenHistory{*std::move(turn), *std::move(reader)};
}

bool is_about(const Json& verdict, uint64_t id) { return report::number_of(verdict, "incident") == id; }

// Open ones that the database does not have (yet, or any more: it was replaced).
void add_unstored(const report::Snapshot& s, history::HistoryReader& reader, std::vector<Json>& newer) {
  for (const Incident& i : s.incidents) {
    if (i.revision == 0 || !is_open(i.state)) continue;
    const bool waits = std::any_of(newer.begin(), newer.end(), [&](const Json& v) { return is_about(v, i.id); });
    if (!waits && absl::IsNotFound(reader.newest(i.id).status())) newer.push_back(verdict_of(i, s));
  }
}

Json with_silence(Json verdict, const Reporter& reporter) {
  const int64_t now_ms = realtime_now_ns() / ns_per_ms;
  report::set_silenced(verdict, reporter.book().silences(now_ms), now_ms);
  return verdict;
}

// How long an open incident has lasted counts up to now, not to its newest revision.
Json with_now(Json verdict, const report::Snapshot& s) {
  if (!history::is_closed(report::text_of(verdict, "state"))) verdict["now"] = s.clock.text(s.now_ns);
  return verdict;
}

// Of one incident what to do is said, too: by what is known now, whenever its newest revision was made.
Json answer_of(Json verdict, const report::Snapshot& s, const Reporter& reporter) {
  verdict = with_silence(with_now(std::move(verdict), s), reporter);
  report::set_mitigation(verdict, reporter.known());
  return verdict;
}

Json page_with_silences(history::Page page, const std::string& time, const Reporter& reporter) {
  for (Json& verdict : page.incidents) verdict = with_silence(std::move(verdict), reporter);
  return history::page_json(page, time);
}

}  // namespace

absl::StatusOr<Json> incidents_answer(const std::function<std::string(const std::string&)>& parameter, const report::Snapshot& snapshot,
                                      const Reporter& reporter) {
  const auto filter = history::parse_filter(parameter, realtime_now_ns() / ns_per_ms);
  if (!filter.ok()) return filter.status();
  const std::string time = snapshot.clock.text(snapshot.now_ns);
  if (auto opened = open_history(reporter); opened.ok()) {
    // In this order: what is stored in between is in both, not in neither.
    std::vector<Json> waiting = waiting_in(reporter);
    auto page = opened->reader.list(*filter);
    add_unstored(snapshot, opened->reader, waiting);
    if (page.ok()) return page_with_silences(history::merged(*std::move(page), waiting, *filter), time, reporter);
  }
  return page_with_silences(history::page_of(of_snapshot(snapshot), *filter), time, reporter);
}

absl::StatusOr<Json> incident_answer(uint64_t id, const report::Snapshot& snapshot, const Reporter& reporter) {
  for (const Json& verdict : waiting_in(reporter)) {
    if (is_about(verdict, id)) return answer_of(verdict, snapshot, reporter);
  }
  bool hangs = false;
  if (auto opened = open_history(reporter); opened.ok()) {
    if (auto newest = opened->reader.newest(id); newest.ok()) return answer_of(*std::move(newest), snapshot, reporter);
  } else {
    hangs = absl::IsDeadlineExceeded(opened.status());
  }
  for (Json& verdict : of_snapshot(snapshot)) {
    if (is_about(verdict, id)) return answer_of(std::move(verdict), snapshot, reporter);
  }
  if (hangs) return absl::UnavailableError("the disk of the history hangs, and of this run there is no such incident");
  return absl::NotFoundError(absl::StrCat("there is no incident ", id));
}

absl::StatusOr<Json> revisions_answer(uint64_t id, const report::Snapshot& snapshot, const Reporter& reporter) {
  std::vector<Json> revisions;
  std::vector<Json> waiting = waiting_in(reporter);
  if (auto opened = open_history(reporter); opened.ok()) {
    auto stored = opened->reader.revisions(id);
    if (stored.ok()) revisions = *std::move(stored);
    else if (!absl::IsNotFound(stored.status())) return stored.status();
    // One that was stored in between is in both.
    const uint64_t stored_last = revisions.empty() ? 0 : report::number_of(revisions.back(), "revision");
    for (Json& verdict : waiting)
      if (is_about(verdict, id) && report::number_of(verdict, "revision") > stored_last) revisions.push_back(std::move(verdict));
  }
  // There is the newest one only: no history is kept, or a snapshot shows the incident before the history has it.
  if (revisions.empty()) {
    auto newest = incident_answer(id, snapshot, reporter);
    if (!newest.ok()) return newest.status();
    revisions.push_back(*std::move(newest));
  }
  return Json({{"incident", id}, {"revisions", std::move(revisions)}});
}

}  // namespace ccld::decision::server
