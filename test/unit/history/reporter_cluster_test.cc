// What a node of a cluster reports: what is in the common log, and nothing else; and how far its history has the log.

#include <catch2/catch.hpp>

#include "absl/synchronization/notification.h"
#include "decision/server/reporter.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

using server::Reporter;
using server::VerdictWriter;

constexpr absl::Duration patience = absl::Seconds(60);

struct ReportingNode {
  Folder folder;
  std::unique_ptr<Reporter> reporter;
  uint64_t log_last = 0;
  size_t entry_bytes_max = SIZE_MAX;
  uint64_t entries_max = UINT64_MAX;

  ReportingNode() { start(); }
  void start() {
    auto history = History::open({.folder = folder.file("state"),
                                  .run = run_named("first"),
                                  .limits = {.bytes_max = 64 << 20, .age_max_ms = ms_per_day}},
                                 start_ms);
    REQUIRE(history.ok());
    reporter = std::make_unique<Reporter>(*VerdictWriter::open(folder.file("v.jsonl")), *std::move(history),
                                          Reporter::Bounds());
    reporter->keep_with([this](const Json& entry) -> absl::StatusOr<LogPosition> {
      if (entry.dump().size() > entry_bytes_max) return absl::OutOfRangeError("too long");
      if (log_last >= entries_max) return absl::UnavailableError("another node leads");
      return LogPosition{1, ++log_last};
    });
  }
  void lead() {
    REQUIRE(reporter->apply({}, position(), {1, log_last}, patience).ok());
    reporter->wrote(leads_entry("a", "first", 0), {1, ++log_last});
  }
  LogPosition position() const {
    const auto now = reporter->log_position(patience);
    REQUIRE(now.ok());
    return *now;
  }

  // After all that was reported before.
  bool has_all_of_log() const {
    const LogPosition now = position();
    return now == LogPosition{1, log_last};
  }

  void report(std::vector<Incident> incidents) { reporter->report(std::move(incidents), 5, start_ms * ns_per_ms); }
  static Incident incident(uint64_t id, uint32_t revision, size_t extra_bytes = 0) {
    Incident i;
    i.id = id;
    i.run = "first";
    i.revision = revision;
    i.job = "demo";
    i.next_step = std::string(extra_bytes, 'x');
    i.onset_ns = i.suspected_ns = 1;
    return i;
  }
  // Incidents of the verdict lines.
  std::vector<uint64_t> told() const {
    std::vector<uint64_t> all;
    std::ifstream file(folder.file("v.jsonl"));
    for (std::string line; std::getline(file, line);) all.push_back(number_of(Json::parse(line), "incident"));
    return all;
  }
};

}  // namespace

TEST_CASE("Of what is found at once, what the log took is stored and told; what it refused is not") {
  ReportingNode node;
  node.entries_max = 1;
  node.report({ReportingNode::incident(1, 1, 300'000), ReportingNode::incident(2, 1, 300'000)});
  node.reporter->finish();
  CHECK(node.told() == std::vector<uint64_t>{1});
  CHECK(node.reporter->counters().revisions_stored == 1);
}

TEST_CASE(
    "Entries are made as short as the log takes them; a revision that alone is too long is left out and counted") {
  ReportingNode node;
  node.entry_bytes_max = 20'000;
  node.report({ReportingNode::incident(1, 1, 6'000), ReportingNode::incident(2, 1, 6'000),
               ReportingNode::incident(3, 1, 30'000), ReportingNode::incident(4, 1, 6'000)});
  node.reporter->finish();
  CHECK(node.told() == std::vector<uint64_t>{1, 2, 4});
  CHECK(node.log_last >= 2);
  CHECK(node.reporter->counters().revisions_dropped == 1);
  CHECK(node.reporter->counters().revisions_stored == 3);
}

TEST_CASE("A node that led knows after a restart how far its history has the log") {
  ReportingNode node;
  node.lead();
  node.report({ReportingNode::incident(1, 1), ReportingNode::incident(2, 1)});
  REQUIRE(node.reporter->standing(patience).ok());
  node.reporter->change_history_later([](Database&) { return absl::OkStatus(); }, delivered_entry(1, 1));
  CHECK(node.has_all_of_log());
  node.reporter->finish();
  node.reporter.reset();
  node.start();
  CHECK(node.has_all_of_log());
  node.lead();
  CHECK(node.has_all_of_log());
}

TEST_CASE("Entries are applied to the history that they are for, and to no other one") {
  ReportingNode node;
  const std::vector<Revision> told = {revision(7, 1)};
  REQUIRE(node.reporter->apply({revisions_entry(told)}, {}, {1, 5}, patience).ok());
  CHECK(node.position() == LogPosition{1, 5});
  CHECK(node.reporter->last_id() == 7);
  CHECK(absl::IsAborted(node.reporter->apply({}, {}, {1, 9}, patience)));
  CHECK(node.position() == LogPosition{1, 5});
  REQUIRE(node.reporter->apply({}, {1, 5}, {2, 3}, patience).ok());  // another log
  CHECK(node.position() == LogPosition{2, 3});
}

TEST_CASE("A change that the log took and the database refused is applied again: the position stays before it") {
  ReportingNode node;
  node.lead();
  const LogPosition before = node.position();
  const auto fails_at_commit = [](Database& db) {
    return db.run("PRAGMA defer_foreign_keys=ON; INSERT INTO acknowledgements VALUES(99, 1, '', '')");
  };
  CHECK_FALSE(node.reporter
                  ->change_history(
                      fails_at_commit, [] {}, patience)
                  .ok());
  CHECK(node.log_last == before.entry + 1);
  node.report({ReportingNode::incident(1, 1)});
  CHECK(node.position() == before);
  // As it does when it follows.
  REQUIRE(node.reporter->apply({}, before, {1, node.log_last}, patience).ok());
  CHECK(node.has_all_of_log());
}

TEST_CASE("A node with a full disk that leads again knows what it told: numbers and revisions go on") {
  ReportingNode node;
  node.lead();
  node.report({ReportingNode::incident(1, 1), ReportingNode::incident(2, 1)});
  REQUIRE(node.has_all_of_log());
  node.reporter->finish();
  node.reporter.reset();
  // The disk is full: the database may grow by nothing.
  node.start();
  const auto fill = [](Database& db) {
    const auto pages = db.integer("PRAGMA page_count");
    REQUIRE(pages.ok());
    return db.integer("PRAGMA max_page_count=" + std::to_string(*pages)).status();
  };
  REQUIRE(node.reporter
              ->change_history(
                  fill, [] {}, patience)
              .ok());
  Incident resolved = ReportingNode::incident(2, 2, 50'000);
  resolved.state = VerdictState::resolved;
  node.report({ReportingNode::incident(1, 2, 50'000), resolved, ReportingNode::incident(3, 1, 50'000)});
  const auto standing = node.reporter->standing(patience);
  REQUIRE(standing.ok());
  REQUIRE_FALSE(node.reporter->waiting().empty());
  CHECK(standing->log == LogPosition{1, node.log_last});
  CHECK(standing->last_id == 3);
  REQUIRE(standing->open.size() == 2);
  CHECK(number_of(standing->open[0], "incident") == 1);
  CHECK(number_of(standing->open[0], "revision") == 2);
  CHECK(number_of(standing->open[1], "incident") == 3);
  // As it leads again.
  node.reporter->wrote(leads_entry("a", "first", 3), {1, ++node.log_last});
  CHECK(node.has_all_of_log());
}

TEST_CASE("What is looked for later is looked for again until the database answers, and nobody waits") {
  ReportingNode node;
  int looks = 0;
  absl::Notification found;
  node.reporter->look_later([&](Database& db) {
    if (++looks == 1) return absl::UnavailableError("disk I/O error");
    found.Notify();
    return db.integer("SELECT count(*) FROM incidents").status();
  });
  found.WaitForNotification();
  node.report({ReportingNode::incident(1, 1)});
  node.reporter->finish();
  CHECK(looks == 2);
}

}  // namespace ccld::test
