#include "decision/analysis/incident_book.h"

#include <catch2/catch.hpp>

namespace ccld::decision {

TEST_CASE("An incident is handed out when it is new or changed, once each time") {
  Settings s;
  IncidentBook book(s);
  const uint64_t id = book.open({}).id;
  CHECK(book.take_changed().size() == 1);
  CHECK(book.take_changed().empty());
  book.confirm(id, 5);
  book.confirm(id, 6);
  const auto changed = book.take_changed();
  REQUIRE(changed.size() == 1);
  CHECK(changed[0].state == VerdictState::confirmed);
  CHECK(changed[0].confirmed_ns == 5);
  book.resolve(id, 7);
  CHECK(book.take_changed()[0].state == VerdictState::resolved);
  book.confirm(id, 8);
  CHECK(book.find(id)->state == VerdictState::resolved);
}

TEST_CASE("The oldest resolved incident gives way first") {
  Settings s;
  s.incidents_max = 3;
  IncidentBook book(s);
  for (int i = 0; i < 3; ++i) book.open({});
  book.resolve(2, 1);
  book.open({});
  CHECK(book.find(2) == nullptr);
  CHECK(book.find(1) != nullptr);
  book.open({});
  CHECK(book.find(1) == nullptr);
  CHECK(book.all().size() == 3);
  CHECK(book.open_count() == 3);
}

}  // namespace ccld::decision
