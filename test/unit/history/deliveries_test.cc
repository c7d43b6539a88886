#include "decision/history/deliveries.h"

#include <catch2/catch.hpp>

#include "absl/time/clock.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

struct DeliveriesStore {
  Folder folder;
  std::unique_ptr<Store> store = *Store::open(folder.file("history.db"), run_named("first"));
  void change(const std::function<absl::Status(Database&)>& change) { REQUIRE(store->change(change).ok()); }
  Undelivered left(int64_t since_ms = 0, uint64_t max = 100) {
    Undelivered found;
    REQUIRE(store
                ->read([&](Database& db) {
                  auto now = undelivered(db, since_ms, max);
                  if (now.ok()) found = *std::move(now);
                  return now.status();
                })
                .ok());
    return found;
  }
  static std::vector<std::pair<uint64_t, uint64_t>> keys(const Undelivered& u) {
    std::vector<std::pair<uint64_t, uint64_t>> all;
    for (const Json& v : u.verdicts) all.emplace_back(number_of(v, "incident"), number_of(v, "revision"));
    return all;
  }
};

using Keys = std::vector<std::pair<uint64_t, uint64_t>>;

}  // namespace

TEST_CASE(
    "What the receiver has not is found in the order in which it was stored, open or closed, not what is too old") {
  DeliveriesStore d;
  d.change([](Database& db) { return begin_deliveries(db, start_ms - 1000); });
  const int64_t before_ms = start_ms - 2000;
  REQUIRE(d.store
              ->append({revision(1, 1, {.time_ms = before_ms}), revision(2, 1), revision(1, 2), revision(3, 1),
                        revision(3, 2, {.state = "resolved"}), revision(4, 1, {.time_ms = before_ms})})
              .ok());
  CHECK(d.keys(d.left()) == Keys{{2, 1}, {1, 2}, {3, 1}, {3, 2}});
  d.change([](Database& db) { return set_delivered(db, 3, 1); });
  CHECK(d.keys(d.left()) == Keys{{2, 1}, {1, 2}, {3, 2}});
  const Undelivered newest = d.left(0, 2);
  CHECK(d.keys(newest) == Keys{{1, 2}, {3, 2}});
  CHECK(newest.left_out == 1);
  CHECK(d.left(start_ms + 1).verdicts.empty());
}

TEST_CASE("What the receiver has not is found in little time, however many incidents it has or are too old") {
  DeliveriesStore d;
  d.change([](Database& db) { return begin_deliveries(db, 0); });
  // Reading all of them would read this, too.
  d.change([](Database& db) {
    return db.run(
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i+1 FROM n WHERE i<100000)"
        "INSERT INTO incidents SELECT i, 'first', 'demo', 'H1', 'resolved', 0, 1, 1, 1, NULL FROM n;"
        "INSERT INTO revisions SELECT id, 1, 1, 'first', 'x' FROM incidents");
  });
  REQUIRE(d.store->append({revision(2, 1)}).ok());
  const absl::Time before = absl::Now();
  for (int i = 0; i < 1000; ++i) REQUIRE(d.keys(d.left(start_ms)) == Keys{{2, 1}});
  CHECK(absl::Now() - before < absl::Seconds(2));  // 0.1 s; reading all revisions it takes 9 s
}

}  // namespace ccld::test
