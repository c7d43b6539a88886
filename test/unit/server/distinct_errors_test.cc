#include "decision/ingest/distinct_errors.h"

#include <catch2/catch.hpp>

#include "decision/ingest/limits.h"

using namespace ccld::decision::ingest;

TEST_CASE("Only the first error of a kind asks to be logged") {
  DistinctErrors errors(10);
  CHECK(errors.record("a", "first a", 1));
  CHECK_FALSE(errors.record("a", "second a", 2));
  CHECK(errors.record("b", "first b", 3));
  REQUIRE(errors.all().size() == 2);
  CHECK(errors.all()[0].text == "first a");
  CHECK(errors.all()[0].count == 2);
  CHECK(errors.all()[0].first_ns == 1);
  CHECK(errors.all()[0].last_ns == 2);
}

TEST_CASE("Kinds beyond the limit share the last entry") {
  DistinctErrors errors(3);
  int logged = 0;
  for (int i = 0; i < 100; ++i) logged += errors.record("kind " + std::to_string(i), "text", i) ? 1 : 0;
  REQUIRE(errors.all().size() == 3);
  CHECK(logged == 3);
  CHECK(errors.all()[2].key == "other");
  CHECK(errors.all()[2].count == 98);
  CHECK_FALSE(errors.record("kind 0", "text", 200));
  CHECK(errors.all()[0].count == 2);
}

TEST_CASE("Long texts are cut") {
  DistinctErrors errors(3);
  errors.record(std::string(10000, 'k'), std::string(10000, 't'), 1);
  CHECK(errors.all()[0].text.size() == error_text_bytes_max);
}
