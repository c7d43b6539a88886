#include "decision/history/filter.h"

#include <catch2/catch.hpp>
#include <map>

#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

absl::StatusOr<Filter> parse(const std::map<std::string, std::string>& texts) {
  return parse_filter([&](const std::string& name) { return texts.contains(name) ? texts.at(name) : ""; }, start_ms);
}

}  // namespace

TEST_CASE("A span or a time in UTC says since when") {
  CHECK(parse_since("90s", start_ms).value() == start_ms - 90'000);
  CHECK(parse_since("1.5h", start_ms).value() == start_ms - 5'400'000);
  CHECK(parse_since("7d", start_ms).value() == start_ms - 7 * ms_per_day);
  CHECK(parse_since("2026-01-31", start_ms).value() == start_ms - ms_per_day / 2);
  CHECK(parse_since("2026-01-31T12:00", start_ms).value() == start_ms);
  CHECK(parse_since("2026-01-31T12:00:00Z", start_ms).value() == start_ms);
  CHECK(parse_since("2026-01-31T14:00:00+02:00", start_ms).value() == start_ms);
  for (const char* wrong : {"", "h", "-2h", "2 weeks", "1e300d", "31.01.2026", "nan s"}) CHECK_FALSE(parse_since(wrong, start_ms).ok());
}

TEST_CASE("A parameter that cannot be right is named") {
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"since", "soon"}, {"class", "H9"}, {"limit", "0"}, {"limit", "1000000"}, {"after", "-1"}, {"open", "perhaps"}}) {
    const absl::Status status = parse({{name, text}}).status();
    CHECK(absl::IsInvalidArgument(status));
    CHECK(status.message().substr(0, name.size() + 1) == name + ":");
  }
  const Filter f = parse({{"class", "s2"}, {"open", "1"}, {"limit", "5"}, {"after", "0"}}).value();
  CHECK(f.fault_class == "S2");
  CHECK(f.open);
  CHECK(f.limit == 5);
  CHECK(f.after == 0u);
  CHECK_FALSE(parse({}).value().after.has_value());
}

TEST_CASE("Verdicts in memory are filtered and paged as those in the database are") {
  const std::vector<Json> all = {verdict(3, 1), verdict(1, 2, {.state = "resolved"}), verdict(2, 1, {.job = "b"})};
  CHECK(page_of(all, {}).incidents.size() == 3);
  CHECK(page_of(all, {}).incidents[0]["incident"] == 1);
  CHECK(page_of(all, {.job = "b"}).incidents[0]["incident"] == 2);
  CHECK(page_of(all, {.open = true}).matching == 2);
  const Page first = page_of(all, {.limit = 2, .after = 0});
  CHECK(first.next == 2u);
  CHECK(first.matching == 3);
  CHECK(page_of(all, {.limit = 2}).incidents[0]["incident"] == 2);
}

TEST_CASE("What the disk has refused replaces and completes what the database holds") {
  Page stored;
  stored.incidents = {verdict(1, 1), verdict(2, 1)};
  stored.matching = 2;
  const Page page = merged(stored, {verdict(2, 2, {.state = "confirmed"}), verdict(3, 1)}, {});
  REQUIRE(page.incidents.size() == 3);
  CHECK(page.incidents[1]["revision"] == 2);
  CHECK(page.incidents[2]["incident"] == 3);
  CHECK(page.matching == 3);
  const Page open = merged(stored, {verdict(2, 2, {.state = "resolved"})}, {.open = true});
  CHECK(open.incidents.size() == 1);
  CHECK(open.matching == 1);
  CHECK(merged(stored, {verdict(3, 1)}, {.limit = 2}).incidents[1]["incident"] == 3);
}

}  // namespace ccld::test
