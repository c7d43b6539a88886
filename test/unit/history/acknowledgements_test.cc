#include "decision/history/acknowledgements.h"

#include <catch2/catch.hpp>

#include "decision/history/history.h"
#include "decision/history/reader.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

std::unique_ptr<History> open(const Folder& folder, const std::string& run) {
  auto history = History::open({.folder = folder.file("state"), .run = run_named(run), .limits = {}}, start_ms);
  INFO(history.status().message());
  REQUIRE(history.ok());
  return *std::move(history);
}

absl::Status put(History& history, uint64_t incident, const std::string& by, const std::string& note) {
  return history.change([&](Database& db) { return put_acknowledgement(db, incident, {.time_ms = start_ms, .by = by, .note = note}); });
}

}  // namespace

TEST_CASE("An acknowledgement is there for readers and for the next run, until it is withdrawn or its incident closes") {
  const Folder folder;
  {
    const auto history = open(folder, "first");
    REQUIRE(history->append({revision(1, 1), revision(2, 1), revision(3, 1)}, start_ms).ok());
    REQUIRE(put(*history, 1, "bob", "").ok());
    REQUIRE(put(*history, 1, "alice", "swapping the cable").ok());  // in the place of the one before
    REQUIRE(put(*history, 2, "bob", "").ok());
    REQUIRE(put(*history, 3, "bob", "").ok());
    REQUIRE(history->change([](Database& db) { return remove_acknowledgement(db, 2); }).ok());
    REQUIRE(history->append({revision(3, 2, {.state = "resolved"})}, start_ms).ok());
  }
  const auto history = open(folder, "second");
  REQUIRE(history->acknowledgements().size() == 1);
  CHECK(history->acknowledgements().at(1).by == "alice");
  CHECK(history->acknowledgements().at(1).note == "swapping the cable");
  auto reader = *HistoryReader::open(history->path());
  const Json alice = {{"time", time_at(start_ms)}, {"by", "alice"}, {"note", "swapping the cable"}};
  CHECK(reader.newest(1).value()["acknowledged"] == alice);
  CHECK(reader.newest(2).value()["acknowledged"].is_null());
  CHECK(reader.revisions(3).value().front()["acknowledged"]["by"] == "bob");
  const Page page = reader.list({}).value();
  REQUIRE(page.incidents.size() == 3);
  CHECK(page.incidents[0]["acknowledged"] == alice);
}

TEST_CASE("What is not in the database cannot be acknowledged, and changes nothing") {
  const Folder folder;
  const auto history = open(folder, "first");
  CHECK(absl::IsNotFound(put(*history, 7, "alice", "")));
  CHECK(absl::IsAborted(history->change([](Database& db) {
    if (absl::Status s = db.run("INSERT INTO numbers VALUES('x', 1)"); !s.ok()) return s;
    return absl::AbortedError("no");
  })));
  auto db = *Database::open(history->path(), Database::Mode::read);
  CHECK(db->integer("SELECT count(*) FROM numbers WHERE name='x'").value() == 0);
}

TEST_CASE("An acknowledgement goes with its incident") {
  const Folder folder;
  const auto store = *Store::open(folder.file("history.db"), run_named("first"));
  REQUIRE(store->append({revision(1, 1, {.state = "resolved", .time_ms = start_ms - 2 * ms_per_day})}).ok());
  REQUIRE(store->change([](Database& db) { return put_acknowledgement(db, 1, {.time_ms = start_ms, .by = "bob", .note = ""}); }).ok());
  REQUIRE(store->trim({.bytes_max = 1 << 30, .age_max_ms = ms_per_day}, start_ms).value() == 1);
  auto db = *Database::open(folder.file("history.db"), Database::Mode::read);
  CHECK(db->integer("SELECT count(*) FROM acknowledgements").value() == 0);
}

TEST_CASE("A database of the version before is read as it is, and a service brings it to its own version") {
  const Folder folder;
  const std::string path = folder.file("history.db");
  {
    const auto store = *Store::open(path, run_named("first"));
    REQUIRE(store->append({revision(1, 1)}).ok());
    REQUIRE(store->change([](Database& db) { return db.run("DROP TABLE acknowledgements; DROP TABLE deliveries; DROP TABLE silences; PRAGMA user_version=1"); }).ok());
  }
  CHECK(HistoryReader::open(path)->newest(1).value()["acknowledged"].is_null());
  {
    const auto store = Store::open(path, run_named("second"));
    INFO(store.status().message());
    REQUIRE(store.ok());
    CHECK((*store)->last_id() == 1);
    REQUIRE((*store)->change([](Database& db) { return put_acknowledgement(db, 1, {.time_ms = start_ms, .by = "bob", .note = ""}); }).ok());
  }
  CHECK(HistoryReader::open(path)->newest(1).value()["acknowledged"]["by"] == "bob");
}

}  // namespace ccld::test
