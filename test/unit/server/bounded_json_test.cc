#include "decision/report/bounded_json.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "test/support/json/hostile.h"

namespace ccld::decision::report {
namespace {

std::string refusal(const std::string& text) { return std::string(parse_bounded(text).status().message()); }

std::string object_of(int members) {
  std::string text = "{";
  for (int i = 0; i < members; ++i) absl::StrAppend(&text, i > 0 ? "," : "", "\"", i, "\":[1,2]");
  return text + "}";
}

}  // namespace

TEST_CASE("A document as deep as ours may be is read, one deeper is refused with the byte") {
  CHECK(parse_bounded(test::nested(json_depth_max)).ok());
  CHECK(refusal(test::nested(json_depth_max + 1)) == "nested more than 64 deep (byte 64)");
  for (const size_t depth : {1000, 100'000, 1'000'000}) {
    CHECK(absl::StartsWith(refusal(test::nested(depth)), "nested more than 64 deep"));
    CHECK(absl::StartsWith(refusal(std::string(depth, '[')), "nested more than 64 deep"));
    CHECK(absl::StartsWith(refusal(test::nested(depth, "{\"a\":", "}")), "nested more than 64 deep"));
    CHECK(refusal(std::string(depth, ']')) == "not JSON");
  }
}

TEST_CASE("Lists have no bound, objects have one of each") {
  std::string list = "[[1]";
  for (int i = 0; i < 10'000; ++i) list += ",[1,{\"a\":1}]";
  CHECK(parse_bounded(list + "]").ok());
  CHECK(parse_bounded(object_of(json_members_max)).ok());
  CHECK(absl::StartsWith(refusal(object_of(json_members_max + 1)), "an object of more than 512 members"));
  CHECK(parse_bounded(absl::StrCat("[", object_of(json_members_max), ",", object_of(json_members_max), "]")).ok());
}

TEST_CASE("Brackets, commas and quotes in texts are no structure") {
  const std::string brackets(1000, '['), commas(1000, ',');
  CHECK(parse_bounded(absl::StrCat("{\"", brackets, "\":\"", commas, "\\\"", brackets, "\\\\\"}")).ok());
  CHECK(absl::StartsWith(refusal(absl::StrCat("[\"\\\\\",", brackets)), "nested more than 64 deep"));
}

TEST_CASE("What is no JSON is refused, wherever it ends") {
  for (const char* text : {"", "{", "nonsense", "\"", "\"\\", "[1", "{]", "[1] [2]", "\xff", "[\"\xff\"]"})
    CHECK(refusal(text) == "not JSON");
}

TEST_CASE("Both kinds of documents of the library are read") {
  CHECK(parse_bounded(R"({"b": 1, "a": 2})")->dump() == R"({"b":1,"a":2})");
  CHECK(parse_bounded<nlohmann::json>(R"({"b": 1, "a": 2})")->dump() == R"({"a":2,"b":1})");
}

}  // namespace ccld::decision::report
