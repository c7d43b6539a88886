#include "decision/history/store.h"

#include <catch2/catch.hpp>

#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

std::unique_ptr<Store> open(const Folder& folder, const std::string& run = "first") {
  auto store = Store::open(folder.file("history.db"), run_named(run));
  INFO(store.status().message());
  REQUIRE(store.ok());
  return *std::move(store);
}

int64_t count(const Folder& folder, const std::string& table) {
  auto db = Database::open(folder.file("history.db"), Database::Mode::read);
  REQUIRE(db.ok());
  return (*db)->integer("SELECT count(*) FROM " + table).value();
}

}  // namespace

TEST_CASE("What was stored is there for the next run, which goes on with the numbers") {
  const Folder folder;
  {
    const auto store = open(folder);
    CHECK(store->last_id() == 0);
    REQUIRE(store->append({revision(1, 1), revision(2, 1), revision(1, 2, {.state = "confirmed"})}).ok());
    REQUIRE(store->append({revision(2, 2, {.state = "resolved"})}).ok());
    CHECK(store->last_id() == 2);
  }
  const auto store = open(folder, "second");
  CHECK(store->last_id() == 2);
  const auto left = store->left_open().value();
  REQUIRE(left.size() == 1);
  CHECK(Json::parse(left[0]) == verdict(1, 2, {.state = "confirmed"}));
}

TEST_CASE("A revision that comes again is stored once, and an older one does not replace a newer one") {
  const Folder folder;
  const auto store = open(folder);
  REQUIRE(store->append({revision(1, 1), revision(1, 2, {.state = "resolved"})}).ok());
  REQUIRE(store->append({revision(1, 1), revision(1, 2, {.state = "resolved"})}).ok());
  CHECK(count(folder, "revisions") == 2);
  CHECK(store->left_open().value().empty());
}

TEST_CASE("The position in the log goes on with what is stored, and stays before what is not") {
  const Folder folder;
  const auto store = open(folder);
  const auto position = [&] {
    LogPosition p;
    REQUIRE(store
                ->read([&](Database& db) {
                  p = *log_position_of(db);
                  return absl::OkStatus();
                })
                .ok());
    return p;
  };
  REQUIRE(store->change([](Database& db) { return set_log_position(db, {.made_ns = 9, .entry = 4}); }).ok());
  REQUIRE(store->append({revision(1, 1)}, {{.at = {9, 5}}, {.at = {9, 6}, .last_id = 50}}).ok());
  CHECK(position() == LogPosition{9, 6});
  REQUIRE(store->append({}, {{.at = {9, 8}}}).ok());   // 7 is missing
  REQUIRE(store->append({}, {{.at = {10, 7}}}).ok());  // of another log
  CHECK(position() == LogPosition{9, 6});
  REQUIRE(store->append({}, {{.at = {9, 7}}}).ok());
  CHECK(position() == LogPosition{9, 7});
  CHECK(open(folder, "second")->last_id() == 50);
}

TEST_CASE("Closed incidents go when they are too old, open ones stay") {
  const Folder folder;
  const auto store = open(folder);
  const int64_t old_ms = start_ms - 10 * ms_per_day;
  REQUIRE(store->append({revision(1, 1, {.state = "resolved", .time_ms = old_ms}), revision(2, 1, {.time_ms = old_ms}),
                         revision(3, 1, {.state = "ended"})})
              .ok());
  CHECK(store->trim({.bytes_max = 1 << 30, .age_max_ms = 9 * ms_per_day}, start_ms).value() == 1);
  CHECK(count(folder, "incidents WHERE id=1") == 0);
  CHECK(count(folder, "revisions WHERE incident=1") == 0);
  CHECK(count(folder, "incidents") == 2);
  CHECK(store->last_id() == 3);
}

TEST_CASE("The oldest closed incidents give way when the database is too large, and numbers are not given again") {
  const Folder folder;
  auto store = open(folder);
  constexpr uint64_t incidents = 400, limit = 1 << 20;
  std::vector<Revision> revisions;
  for (uint64_t id = 1; id <= incidents; ++id) {
    Revision r = revision(id, 1, {.state = id % 2 == 0 ? "resolved" : "confirmed", .time_ms = start_ms + static_cast<int64_t>(id)});
    r.line.append(5000, ' ');
    revisions.push_back(r);
  }
  REQUIRE(store->append(revisions).ok());
  CHECK(store->bytes().value() > 2 * limit);
  CHECK(store->trim({.bytes_max = 2 * limit, .age_max_ms = ms_per_day}, start_ms).value() > 0);
  CHECK(store->bytes().value() < 2 * limit);
  CHECK(count(folder, "incidents WHERE open=1") == static_cast<int64_t>(incidents / 2));
  CHECK(count(folder, "incidents WHERE id=2") == 0);
  CHECK(count(folder, "incidents WHERE id=400") == 1);
  // The pages are given back.
  CHECK(std::filesystem::file_size(folder.file("history.db")) < 4 * limit);
  REQUIRE(store->trim({.bytes_max = limit, .age_max_ms = 0}, start_ms + ms_per_day).ok());
  CHECK(count(folder, "incidents WHERE open=0") == 0);
  store.reset();
  CHECK(open(folder, "second")->last_id() == incidents);
}

TEST_CASE("A job of which much is found takes no room from one of which little is found") {
  const Folder folder;
  const auto store = open(folder);
  std::vector<Revision> revisions;
  constexpr uint64_t quiet = 10, incidents = 400, limit = 1 << 20;
  for (uint64_t id = 1; id <= incidents; ++id) {
    const int64_t time_ms = start_ms + static_cast<int64_t>(id);
    Revision r = revision(id, 1, {.state = "resolved", .job = id <= quiet ? "quiet" : "loud", .time_ms = time_ms});
    r.line.append(5000, ' ');
    revisions.push_back(r);
  }
  REQUIRE(store->append(revisions).ok());
  REQUIRE(store->trim({.bytes_max = limit, .age_max_ms = ms_per_day}, start_ms).value() > 0);
  CHECK(store->bytes().value() < limit);
  CHECK(count(folder, "incidents WHERE job='quiet'") == static_cast<int64_t>(quiet));
  CHECK(count(folder, "incidents WHERE id=400") == 1);
  CHECK(count(folder, "incidents WHERE id=11") == 0);
}

TEST_CASE("Where only open incidents are left, their old revisions give way and the newest stays") {
  const Folder folder;
  const auto store = open(folder);
  std::vector<Revision> revisions;
  for (uint32_t number = 1; number <= 300; ++number) {
    Revision r = revision(1, number, {.time_ms = start_ms + number});
    r.line.append(5000, ' ');
    revisions.push_back(r);
  }
  REQUIRE(store->append(revisions).ok());
  CHECK(store->trim({.bytes_max = 1 << 20, .age_max_ms = ms_per_day}, start_ms).value() == 0);
  CHECK(store->bytes().value() < 1 << 20);
  CHECK(number_of(Json::parse(open(folder, "second")->left_open().value().at(0)), "revision") == 300);
}

TEST_CASE("A database that is damaged, newer or not ours is refused as what it is") {
  const Folder folder;
  open(folder)->append({revision(1, 1)}).IgnoreError();
  const std::string path = folder.file("history.db");
  const auto run = [&](const std::string& sql) { REQUIRE(Database::open(path, Database::Mode::create).value()->run(sql).ok()); };
  run("PRAGMA user_version=1000");
  const absl::Status newer = Store::open(path, run_named("second")).status();
  CHECK(absl::IsFailedPrecondition(newer));
  CHECK(std::string(newer.message()).find("is of version 1000, this ccld knows version") != std::string::npos);
  run("PRAGMA application_id=1");
  CHECK(std::string(Store::open(path, run_named("second")).status().message()).find("is not a history of ccld") != std::string::npos);
  std::filesystem::remove(path + "-wal");
  std::ofstream(path, std::ios::binary | std::ios::trunc) << std::string(20000, 'x');
  CHECK(absl::IsDataLoss(Store::open(path, run_named("second")).status()));
}

}  // namespace ccld::test
