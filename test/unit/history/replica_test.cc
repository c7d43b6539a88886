// The log by which nodes of a cluster come to the same history.
#include "decision/history/replica.h"

#include <catch2/catch.hpp>

#include "decision/history/acknowledgements.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

struct Copy {
  Folder folder;
  std::unique_ptr<Store> store;
  Copy() {
    auto opened = Store::open(folder.file("incidents.db"), run_named("second"));
    REQUIRE(opened.ok());
    store = *std::move(opened);
  }
  // As it comes over the wire.
  absl::Status apply(const Json& entry) {
    return store->change([&](Database& db) { return apply_entry(db, Json::parse(entry.dump(), nullptr, false)); });
  }
  Standing standing() {
    Standing s;
    REQUIRE(store
                ->change([&](Database& db) {
                  auto found = standing_of(db, start_ms);
                  if (found.ok()) s = *std::move(found);
                  return found.status();
                })
                .ok());
    return s;
  }
};

Json silenced(Json silences) { return {{"operators", {{"silences", std::move(silences)}}}}; }

}  // namespace

TEST_CASE("A history made from the log has the incidents, what operators said, and what was delivered") {
  Copy copy;
  const std::vector<Revision> told = {revision(7, 1), revision(8, 1), revision(7, 2, {.state = "confirmed"}),
                                      revision(8, 2, {.state = "resolved"})};
  for (int times = 0; times < 2; ++times) {  // also where it is read again
    REQUIRE(copy.apply(leads_entry("a", "first", 5)).ok());
    REQUIRE(copy.apply(revisions_entry(told)).ok());
  }
  const report::Silence silence{.id = 3,
                                .job = "demo",
                                .host = "",
                                .kind = "",
                                .component = "",
                                .from_ms = start_ms,
                                .until_ms = start_ms + ms_per_day,
                                .by = "bob\x1b[2J",
                                .note = ""};
  REQUIRE(
      copy.apply(operators_entry({{7, {.time_ms = start_ms, .by = "alice", .note = "on it"}}, {99, {}}}, {silence}, 5))
          .ok());
  REQUIRE(copy.apply(delivered_entry(7, 2)).ok());

  const Standing s = copy.standing();
  CHECK(s.last_id == 8);
  REQUIRE(s.open.size() == 1);
  CHECK(number_of(s.open[0], "incident") == 7);
  CHECK(number_of(s.open[0], "revision") == 2);
  REQUIRE(s.acknowledgements.size() == 1);
  CHECK(s.acknowledgements.at(7).note == "on it");
  REQUIRE(s.silences.silences.size() == 1);
  CHECK(s.silences.silences[0].by == "bob\x1b[2J");
  CHECK(s.silences.last_id == 5);

  // What is no longer in force goes.
  REQUIRE(copy.apply(operators_entry({}, {}, 5)).ok());
  CHECK(copy.standing().acknowledgements.empty());
  CHECK(copy.standing().silences.silences.empty());
  CHECK(copy.standing().silences.last_id == 5);
}

TEST_CASE(
    "What was said of an incident that has closed stays, whatever who leads names, also where the log is read again") {
  Copy copy;
  const report::Acknowledgement on_it{.time_ms = start_ms, .by = "alice", .note = "on it"};
  const std::vector<Revision> opened = {revision(7, 1), revision(8, 1)};
  const std::vector<Revision> closed = {revision(7, 2, {.state = "resolved"}), revision(8, 2, {.state = "resolved"})};
  for (int times = 0; times < 2; ++times) {
    REQUIRE(copy.apply(revisions_entry(opened)).ok());
    REQUIRE(copy.apply(operators_entry({{7, on_it}, {8, on_it}}, {}, 0)).ok());
    REQUIRE(copy.apply(operators_entry({{7, on_it}}, {}, 0)).ok());  // of the other one it was withdrawn
    REQUIRE(copy.apply(revisions_entry(closed)).ok());
    REQUIRE(copy.apply(operators_entry({}, {}, 0)).ok());  // of a node that leads since
    REQUIRE(copy.store
                ->change([](Database& db) {
                  CHECK(*db.integer("SELECT count(*) FROM acknowledgements") == 1);
                  CHECK(*db.integer("SELECT incident FROM acknowledgements") == 7);
                  return absl::OkStatus();
                })
                .ok());
  }
}

TEST_CASE("Numbers go on after the one that a node led with, unless it is none that is told") {
  Copy copy;
  REQUIRE(copy.apply(leads_entry("a", "first", 100)).ok());
  REQUIRE(copy.apply(leads_entry("b", "other", 7)).ok());
  CHECK(copy.standing().last_id == 100);
  REQUIRE(copy.apply(leads_entry("a", "first", told_ids_end)).ok());
  CHECK(copy.standing().last_id == 100);
}

TEST_CASE(
    "An incident of the node's own history gives way to one of the log that has its number, and is not mixed with it") {
  Copy copy;
  const std::vector<Revision> before = {revision(1, 5, {.run = "alone"}), revision(2, 1, {.run = "alone"}),
                                        revision(3, 1, {.state = "resolved", .run = "alone"})};
  REQUIRE(copy.store->append(before).ok());
  REQUIRE(copy.store
              ->change([](Database& db) {
                return put_acknowledgement(db, 1, {.time_ms = start_ms, .by = "alice", .note = ""});
              })
              .ok());
  const std::vector<Revision> told = {revision(1, 1), revision(3, 1), revision(1, 2, {.state = "confirmed"})};
  uint64_t removed = 0;
  for (int times = 0; times < 2; ++times)
    REQUIRE(copy.store->change([&](Database& db) { return apply_entry(db, revisions_entry(told), &removed); }).ok());
  CHECK(removed == 2);
  const Standing s = copy.standing();
  REQUIRE(s.open.size() == 3);
  CHECK(s.open[0] == verdict(1, 2, {.state = "confirmed"}));
  CHECK(s.open[1] == verdict(2, 1, {.run = "alone"}));
  CHECK(s.open[2] == verdict(3, 1));
  CHECK(s.acknowledgements.empty());
  REQUIRE(copy.store
              ->read([](Database& db) {
                CHECK(*db.integer("SELECT count(*) FROM revisions WHERE incident=1") == 2);
                return absl::OkStatus();
              })
              .ok());
}

TEST_CASE("Where a history stands is read without a change: a silence that is over stays until the next start") {
  Copy copy;
  REQUIRE(copy.apply(silenced(Json::array({Json{{"id", 3}, {"job", "demo"}, {"until_ms", start_ms}}}))).ok());
  CHECK(copy.standing().silences.silences.empty());
  REQUIRE(copy.store
              ->read([](Database& db) {
                CHECK(*db.integer("SELECT count(*) FROM silences") == 1);
                return absl::OkStatus();
              })
              .ok());
}

TEST_CASE("An entry that cannot be read changes nothing") {
  Copy copy;
  CHECK(absl::IsInvalidArgument(copy.apply(Json::array())));
  CHECK(absl::IsInvalidArgument(copy.apply({{"delivered", {{"incident", "x"}, {"revision", 1}}}})));
  CHECK(copy.apply({{"of a later version", 1}}).ok());
  CHECK(copy.standing().last_id == 0);
}

TEST_CASE("An entry that cannot be read takes nothing away from others of the same transaction") {
  Copy copy;
  const Json silence = {{"id", 3}, {"job", "demo"}, {"until_ms", start_ms + ms_per_day}};
  REQUIRE(copy.store
              ->change([&](Database& db) {
                REQUIRE(apply_entry(db, silenced(Json::array({silence}))).ok());
                CHECK(absl::IsInvalidArgument(apply_entry(db, silenced(Json::array({Json{{"id", "x"}}})))));
                return absl::OkStatus();
              })
              .ok());
  CHECK(copy.standing().silences.silences.size() == 1);
}

TEST_CASE("A silence that an entry has twice is one: the log goes on") {
  Copy copy;
  const Json silence = {{"id", 3}, {"job", "demo"}, {"until_ms", start_ms + ms_per_day}};
  CHECK(copy.apply(silenced(Json::array({silence, silence}))).ok());
  CHECK(copy.standing().silences.silences.size() == 1);
}

}  // namespace ccld::test
