#include "decision/cli/verdict_file.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "test/support/json/hostile.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

VerdictFile parse(const std::vector<Json>& verdicts) {
  std::stringstream text;
  for (const Json& v : verdicts) text << report::to_line(v) << "\n";
  auto file = parse_verdict_file(text, "v.jsonl");
  INFO(file.status().message());
  REQUIRE(file.ok());
  return *file;
}

}  // namespace

TEST_CASE("A file of several runs hides nothing, and says who is dead") {
  const VerdictFile file = parse({verdict(1, 1), verdict(2, 1), verdict(1, 2, {.state = "confirmed"}), verdict(2, 2, {.state = "resolved"}),
                                  verdict(1, 1, {.run = "second"}), verdict(1, 2, {.state = "confirmed", .run = "second"})});
  CHECK(file.runs == std::vector<std::string>{"first", "second"});
  REQUIRE(file.incidents.size() == 3);
  const auto ones = file.find(1);
  REQUIRE(ones.size() == 2);
  CHECK(ones[0]->run == "first");
  CHECK(ones[0]->newest()["state"] == "ended");
  CHECK(ones[0]->lines.size() == 2);
  CHECK(ones[1]->newest()["state"] == "confirmed");
  CHECK(file.find(2)[0]->newest()["state"] == "resolved");
  CHECK(file.find(3).empty());
}

TEST_CASE("An incident that a later run took up goes on") {
  const VerdictFile file = parse({verdict(1, 1), verdict(2, 1, {.run = "second"}), verdict(1, 2)});
  CHECK(file.find(1)[0]->newest()["state"] == "suspected");
  CHECK(file.find(1)[0]->lines.size() == 2);
}

TEST_CASE("Runs of older versions are told apart by the onset of their incidents") {
  const auto unnamed = [](uint64_t id, const std::string& onset) {
    Json v = verdict(id, 1);
    v.erase("run");
    v.erase("revision");
    v["onset_time"] = onset;
    return v;
  };
  const VerdictFile file = parse({unnamed(1, "a"), unnamed(2, "b"), unnamed(1, "a"), unnamed(1, "c"), unnamed(2, "d")});
  CHECK(file.runs.size() == 2);
  CHECK(file.incidents.size() == 4);
  CHECK(file.find(1)[0]->lines.size() == 2);
  CHECK(file.find(1)[0]->newest()["state"] == "ended");
}

TEST_CASE("A line that is no verdict is named") {
  for (const char* text : {"nonsense\n", "{\"incident\": 1}\n[]\n", "{\"incident\": \"1\"}\n"}) {
    std::stringstream stream(text);
    const absl::Status status = parse_verdict_file(stream, "v.jsonl").status();
    CHECK(absl::IsUnavailable(status));
    CHECK(std::string(status.message()).find("'v.jsonl' is not a verdict") != std::string::npos);
  }
  CHECK(absl::IsUnavailable(read_verdict_file("/nowhere/v").status()));
}

TEST_CASE("A line that is nested deep is no verdict, and harms nobody") {
  for (const std::string& deep : {nested(100'000), "{\"incident\": 1, \"evidence\": " + nested(100'000) + "}"}) {
    std::stringstream stream(report::to_line(verdict(1, 1)) + "\n" + deep + "\n");
    CHECK(std::string(parse_verdict_file(stream, "v.jsonl").status().message())
              .find("line 2 of 'v.jsonl' is not a verdict: nested more than 64 deep") != std::string::npos);
  }
}

}  // namespace ccld::test
