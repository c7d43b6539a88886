#include "decision/history/reader.h"

#include <catch2/catch.hpp>

#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

std::vector<uint64_t> ids(const Page& page) {
  std::vector<uint64_t> result;
  for (const Json& v : page.incidents) result.push_back(number_of(v, "incident"));
  return result;
}

using Ids = std::vector<uint64_t>;

}  // namespace

TEST_CASE("Incidents are found by job, class, state and time, page by page, while the service writes") {
  const Folder folder;
  const auto store = *Store::open(folder.file("history.db"), run_named("first"));
  REQUIRE(store->append({revision(1, 1, {.state = "resolved", .job = "a", .time_ms = start_ms - 2 * ms_per_day}),
                         revision(2, 1, {.job = "b", .fault_class = "S2", .time_ms = start_ms - 2 * ms_per_day}),
                         revision(3, 1, {.job = "a"}), revision(3, 2, {.state = "resolved", .job = "a"}),
                         revision(4, 1, {.state = "ended", .job = "b"})})
              .ok());
  auto reader = *HistoryReader::open(folder.file("history.db"));
  const auto list = [&](const Filter& f) {
    auto page = reader.list(f);
    INFO(page.status().message());
    REQUIRE(page.ok());
    return *page;
  };
  CHECK(ids(list({})) == Ids{1, 2, 3, 4});
  CHECK(list({}).incidents[2]["revision"] == 2);
  CHECK(ids(list({.job = "a"})) == Ids{1, 3});
  CHECK(ids(list({.fault_class = "S2"})) == Ids{2});
  CHECK(ids(list({.open = true})) == Ids{2});
  CHECK(ids(list({.since_ms = start_ms - ms_per_day})) == Ids{2, 3, 4});  // 2 is still open

  const Page newest = list({.limit = 2});
  CHECK(ids(newest) == Ids{3, 4});
  CHECK(newest.matching == 4);
  CHECK_FALSE(newest.next.has_value());
  const Page first = list({.limit = 3, .after = 0});
  CHECK(ids(first) == Ids{1, 2, 3});
  CHECK(first.next == 3u);
  const Page second = list({.limit = 3, .after = *first.next});
  CHECK(ids(second) == Ids{4});
  CHECK_FALSE(second.next.has_value());

  REQUIRE(store->append({revision(5, 1)}).ok());
  CHECK(ids(list({.after = 3})) == Ids{4, 5});
}

TEST_CASE("An incident is read with all its revisions and its recording, as long as that exists") {
  const Folder folder;
  const auto store = *Store::open(folder.file("history.db"), run_named("first"));
  REQUIRE(store->append({revision(1, 1), revision(1, 2, {.state = "confirmed"})}).ok());
  std::ofstream(folder.file("r.ccldrec")) << "x";
  REQUIRE(store->set_recording(1, folder.file("r.ccldrec")).ok());
  auto reader = *HistoryReader::open(folder.file("history.db"));
  CHECK(reader.newest(1).value()["state"] == "confirmed");
  CHECK(reader.newest(1).value()["recording"] == folder.file("r.ccldrec"));
  const auto revisions = reader.revisions(1).value();
  REQUIRE(revisions.size() == 2);
  CHECK(revisions[0]["state"] == "suspected");
  std::filesystem::remove(folder.file("r.ccldrec"));
  CHECK(reader.newest(1).value()["recording"].is_null());
  CHECK(absl::IsNotFound(reader.newest(2).status()));
  CHECK(absl::IsNotFound(reader.revisions(2).status()));
}

TEST_CASE("A file that is no history is refused in one line") {
  const Folder folder;
  CHECK_FALSE(HistoryReader::open(folder.file("none")).ok());
  std::ofstream(folder.file("text")) << std::string(5000, 'x');
  CHECK(absl::IsDataLoss(HistoryReader::open(folder.file("text")).status()));
  REQUIRE(Database::open(folder.file("other"), Database::Mode::create).value()->run("CREATE TABLE t(x)").ok());
  CHECK(absl::IsFailedPrecondition(HistoryReader::open(folder.file("other")).status()));
}

}  // namespace ccld::test
