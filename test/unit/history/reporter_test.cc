#include "decision/server/reporter.h"

#include <catch2/catch.hpp>
#include <map>
#include <sstream>
#include <thread>

#include "decision/history/reader.h"
#include "decision/server/incidents_api.h"
#include "test/support/files/pipe.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

using server::Reporter;
using server::VerdictWriter;

Incident incident(uint64_t id, uint32_t revision, VerdictState state = VerdictState::suspected) {
  Incident i;
  i.id = id;
  i.run = "second";
  i.revision = revision;
  i.state = state;
  i.job = "demo";
  i.onset_ns = i.suspected_ns = 1;
  return i;
}

std::unique_ptr<History> open_history(const Folder& folder, const std::string& run) {
  auto history = History::open(
      {.folder = folder.file("state"), .run = run_named(run), .limits = {.bytes_max = 64 << 20, .age_max_ms = ms_per_day}}, start_ms);
  REQUIRE(history.ok());
  return *std::move(history);
}

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> result;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) result.push_back(Json::parse(line));
  return result;
}

}  // namespace

TEST_CASE("Every line that was written is in the database, word by word") {
  const Folder folder;
  Reporter reporter(*VerdictWriter::open(folder.file("v.jsonl")), open_history(folder, "first"), {});
  for (uint64_t id = 1; id <= 50; ++id) {
    reporter.report({incident(id, 1)}, 5, start_ms * ns_per_ms);
    reporter.report({incident(id, 2, VerdictState::confirmed)}, 6, start_ms * ns_per_ms);
  }
  reporter.finish();
  CHECK(reporter.verdict_lines() == 100);
  CHECK(reporter.counters().revisions_stored == 100);
  CHECK(reporter.counters().queue_length == 0);
  auto reader = *HistoryReader::open(database_path(folder.file("state")));
  for (Json& line : lines_of(folder.file("v.jsonl"))) {
    Json stored = reader.revisions(number_of(line, "incident")).value().at(number_of(line, "revision") - 1);
    stored.erase("recording");
    stored.erase("acknowledged");
    CHECK(stored == line);
  }
}

TEST_CASE("What an earlier run left open ends once, unless this run reports it again") {
  const Folder folder;
  open_history(folder, "first")->append({revision(1, 1), revision(2, 1), revision(3, 1, {.state = "resolved"})}, start_ms).IgnoreError();
  {
    Reporter reporter(*VerdictWriter::open(folder.file("v.jsonl")), open_history(folder, "second"), {});
    reporter.report({incident(2, 2)}, 5, start_ms * ns_per_ms);
    reporter.end_left_open(start_ms * ns_per_ms);
    reporter.end_left_open(start_ms * ns_per_ms);
    reporter.finish();
  }
  const auto lines = lines_of(folder.file("v.jsonl"));
  REQUIRE(lines.size() == 2);
  CHECK(lines[1]["incident"] == 1);
  CHECK(lines[1]["state"] == "ended");
  CHECK(lines[1]["revision"] == 2);
  auto reader = *HistoryReader::open(database_path(folder.file("state")));
  CHECK(reader.list({.open = true}).value().matching == 1);
  CHECK(open_history(folder, "third")->left_open().size() == 1);
}

TEST_CASE("Without a history verdicts are written all the same, and questions are answered from the snapshot") {
  const Folder folder;
  Reporter reporter(*VerdictWriter::open(folder.file("v.jsonl")), nullptr, {});
  reporter.report({incident(1, 1)}, 5, start_ms * ns_per_ms);
  reporter.finish();
  CHECK(lines_of(folder.file("v.jsonl")).size() == 1);
  CHECK_FALSE(reporter.counters().enabled);
  report::Snapshot snapshot;
  snapshot.incidents = {incident(1, 1)};
  const auto list = server::incidents_answer([](const std::string&) { return ""; }, snapshot, reporter);
  CHECK(list.value()["incidents"].size() == 1);
  CHECK(server::incident_answer(1, snapshot, reporter).value()["incident"] == 1);
  CHECK(server::revisions_answer(1, snapshot, reporter).value()["revisions"].size() == 1);
  CHECK(absl::IsNotFound(server::incident_answer(2, snapshot, reporter).status()));
}

TEST_CASE("Who reads verdicts and stops reading does not keep the service from ending") {
  Pipe pipe;
  auto reporter = std::make_unique<Reporter>(*VerdictWriter::open(pipe.path()), nullptr, Reporter::Bounds{.queue_max = 4, .waiting_max = 4});
  pipe.fill();
  CHECK(reporter->held_up_ns() == 0);
  reporter->report({incident(1, 1)}, 5, start_ms * ns_per_ms);
  CHECK_FALSE(reporter->finish(absl::Milliseconds(50)));
  const Nanoseconds held_up_ns = reporter->held_up_ns();
  CHECK(held_up_ns > 0);
  CHECK(reporter->held_up_ns() > held_up_ns);
  pipe.drain();
  CHECK(reporter->finish());
  CHECK(reporter->held_up_ns() == 0);
  reporter.reset();  // closes the pipe
}

TEST_CASE("An open incident that the database does not have is answered from the snapshot, with the time it has lasted until") {
  const Folder folder;
  Reporter reporter(*VerdictWriter::open(folder.file("v.jsonl")), open_history(folder, "first"), {});
  report::Snapshot snapshot;
  snapshot.now_ns = 90 * ns_per_s;
  snapshot.incidents = {incident(1, 1), incident(2, 1, VerdictState::resolved)};
  const auto list = server::incidents_answer([](const std::string&) { return ""; }, snapshot, reporter);
  REQUIRE(list.value()["incidents"].size() == 1);
  CHECK(list.value()["incidents"][0]["incident"] == 1);
  CHECK(server::incident_answer(1, snapshot, reporter).value()["now"] == snapshot.clock.text(snapshot.now_ns));
  CHECK_FALSE(server::incident_answer(2, snapshot, reporter).value().contains("now"));
  const auto revisions = server::revisions_answer(1, snapshot, reporter);
  REQUIRE(revisions.ok());
  CHECK(revisions.value()["revisions"].size() == 1);
  CHECK(absl::IsNotFound(server::revisions_answer(3, snapshot, reporter).status()));
}

TEST_CASE("A queue without room keeps the newest state of an incident, and counts") {
  Pipe pipe;  // the thread is stuck as soon as it is full
  auto reporter = std::make_unique<Reporter>(*VerdictWriter::open(pipe.path()), nullptr, Reporter::Bounds{.queue_max = 4, .waiting_max = 4});
  uint32_t given = 0;
  while (reporter->counters().revisions_dropped < 10 && given < 100'000) {
    ++given;
    reporter->report({incident(given % 2 + 1, given)}, 5, start_ms * ns_per_ms);
  }
  CHECK(reporter->counters().revisions_dropped >= 10);
  CHECK(reporter->counters().queue_length <= 4);
  // Read on: the newest revision of both comes out.
  pipe.drain();
  reporter->finish();
  CHECK(reporter->verdict_lines() + reporter->counters().revisions_dropped == given);
  reporter.reset();  // closes the pipe
  std::map<uint64_t, uint64_t> newest;
  std::istringstream lines(pipe.text());
  for (std::string line; std::getline(lines, line);) {
    const Json v = Json::parse(line);
    newest[number_of(v, "incident")] = number_of(v, "revision");
  }
  CHECK(newest[given % 2 + 1] == given);
  CHECK(newest[(given - 1) % 2 + 1] == given - 1);
}

}  // namespace ccld::test
