// Services that hear the same telemetry: one leads and tells what it finds, and what it told goes on under its number
// when another one leads.
#include <catch2/catch.hpp>

#include "decision/analysis/incident_book.h"

namespace ccld::decision {
namespace {

Incident hang(const char* job, uint64_t op) {
  Incident i;
  i.fault = FaultClass::h1_not_entered;
  i.job = job;
  i.comm = CommUid{5};
  i.op = OpSeq{op};
  i.suspected_ns = 1;
  return i;
}

LeftOpen left(uint64_t id, uint32_t revision, const Incident& like) {
  LeftOpen l;
  l.id = id;
  l.run = "before";
  l.revision = revision;
  l.fault = like.fault;
  l.job = like.job;
  l.comm = like.comm;
  l.op = like.op;
  return l;
}

}  // namespace

TEST_CASE("Who begins to lead tells what is open under the numbers that it has, once") {
  Settings s;
  IncidentBook book(s, {"own", 0});
  book.follow();
  const uint64_t known = book.open(hang("a", 7)).handle, fresh = book.open(hang("b", 7)).handle;
  book.confirm(known, 2);
  book.take_changed(3);  // which nobody is told
  book.lead({"own", 12}, {left(11, 4, hang("a", 7)), left(12, 1, hang("c", 7))});

  const std::vector<Incident> told = book.take_changed(4);
  REQUIRE(told.size() == 2);
  CHECK(told[0].id == 11);
  CHECK(told[0].run == "before");
  CHECK(told[0].revision == 5);
  CHECK(told[0].state == VerdictState::confirmed);
  CHECK(told[1].id == 13);
  CHECK(told[1].run == "own");
  CHECK(told[1].revision == 1);
  CHECK(book.take_changed(5).empty());

  // The analysis knows them by the same handles.
  book.resolve(known, 6);
  book.resolve(fresh, 6);
  const std::vector<Incident> ended = book.take_changed(7);
  REQUIRE(ended.size() == 2);
  CHECK(ended[0].id == 11);
  CHECK(ended[0].revision == 6);
  CHECK(ended[1].id == 13);
  CHECK(book.open(hang("c", 7)).id == 12);  // found later, and taken up
  CHECK(book.open(hang("d", 7)).id == 14);
}

TEST_CASE("What ended while nobody led is told as ended; what only a node that follows had seen is not told") {
  Settings s;
  IncidentBook book(s);
  book.follow();
  const uint64_t other = book.open(hang("b", 7)).handle, ended = book.open(hang("a", 7)).handle;
  book.resolve(other, 2);
  book.resolve(ended, 2);
  book.take_changed(3);
  book.lead({"own", 11}, {left(11, 2, hang("a", 7))});
  const std::vector<Incident> told = book.take_changed(4);
  REQUIRE(told.size() == 1);
  CHECK(told[0].id == 11);
  CHECK(told[0].revision == 3);
  CHECK(told[0].state == VerdictState::resolved);
  CHECK(book.find(other) == nullptr);
}

TEST_CASE("Who led, follows, and leads again keeps the numbers that it gave, and gives none twice") {
  Settings s;
  IncidentBook book(s, {"own", 0});
  book.follow();
  book.lead({"own", 10}, {});
  const uint64_t first = book.open(hang("a", 7)).handle;
  CHECK(book.take_changed(1)[0].id == 11);
  book.follow();
  const uint64_t second = book.open(hang("b", 7)).handle;  // which another node has told as 12
  CHECK(second != first);
  book.take_changed(2);
  LeftOpen own = left(11, 1, hang("a", 7));
  own.run = "own";
  book.lead({"own", 12}, {own, left(12, 3, hang("b", 7))});
  const std::vector<Incident> told = book.take_changed(3);
  REQUIRE(told.size() == 2);
  CHECK(book.find(first)->id == 11);
  CHECK(book.find(first)->revision == 2);
  CHECK(book.find(second)->id == 12);
  CHECK(book.find(second)->revision == 4);
  CHECK(book.open(hang("c", 7)).id == 13);
  const std::vector<Incident> all = book.all();
  for (size_t i = 1; i < all.size(); ++i) CHECK(all[i - 1].id < all[i].id);
}

TEST_CASE("A number that another node has told of another incident makes no second incident of one handle") {
  Settings s;
  IncidentBook book(s, {"own", 0});
  book.lead({"own", 11}, {});
  const uint64_t first = book.open(hang("a", 7)).handle;  // 12, which nobody is told
  book.follow();
  book.lead({"own", 12}, {left(12, 1, hang("b", 7))});
  CHECK(book.find(first)->id == 13);
  const Incident taken = book.open(hang("b", 7));
  CHECK(taken.id == 12);
  CHECK(taken.handle > first);
  CHECK(book.find(first)->job == "a");
  CHECK(book.find(taken.handle)->job == "b");
  CHECK(book.open(hang("c", 7)).handle > taken.handle);
}

TEST_CASE("No number is given that something open has, whatever the highest number is said to be") {
  Settings s;
  IncidentBook book(s);
  book.follow();
  book.lead({"own", 3}, {left(12, 1, hang("b", 7))});
  CHECK(book.open(hang("a", 7)).id == 13);
}

}  // namespace ccld::decision
