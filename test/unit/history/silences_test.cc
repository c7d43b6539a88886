#include "decision/server/silences.h"

#include <catch2/catch.hpp>

#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

using report::Silence;
using server::add_silence;
using server::end_silence;
using server::parse_silence;
using server::Reporter;
using server::silences_answer;
using server::VerdictWriter;

constexpr absl::Duration timeout = absl::Seconds(60);
constexpr int64_t hour_ms = 3600 * 1000;

std::unique_ptr<Reporter> open_reporter(const Folder& folder, const std::string& run, int64_t now_ms) {
  auto history = History::open({.folder = folder.file("state"), .run = run_named(run), .limits = {.bytes_max = 1 << 30, .age_max_ms = ms_per_day}}, now_ms);
  REQUIRE(history.ok());
  return std::make_unique<Reporter>(*VerdictWriter::open("/dev/null"), *std::move(history), Reporter::Bounds());
}

std::string refusal(const std::string& body) { return std::string(parse_silence(body, start_ms).status().message()); }

Silence of_host(const char* text) { return parse_silence(Json({{"host", text}, {"for", "1h"}, {"by", "bob"}}).dump(), start_ms).value(); }

}  // namespace

TEST_CASE("A silence says what it fits and for how long") {
  const auto s = parse_silence(R"({"job": "demo", "kind": "slow", "component": "nic", "for": "90m", "by": "bob", "note": "new firmware"})", start_ms);
  REQUIRE(s.ok());
  CHECK(s->kind == "slow");
  CHECK(s->until_ms - s->from_ms == 90 * 60 * 1000);
  CHECK(refusal(R"({"for": "2h", "by": "bob"})").find("job, host, kind or component is needed") == 0);
  CHECK(refusal(R"({"job": "a", "by": "bob"})").find("for: '' is not a span") == 0);
  for (const char* span : {"2", "h", "-2h", "0s", "32d", "soon", "nanh"}) {
    INFO(span);
    CHECK(refusal(Json({{"job", "a"}, {"by", "bob"}, {"for", span}}).dump()).find(std::string("for: '") + span + "' is not a span") == 0);
  }
  CHECK(refusal(R"({"kind": "crawl", "for": "2h", "by": "bob"})") == "kind: 'crawl' is not known: expected hang, mismatch, slow");
  CHECK(refusal(R"({"component": "disk", "for": "2h", "by": "bob"})").find("component: 'disk' is not known") == 0);
  CHECK(refusal(R"({"job": "a", "for": "2h"})") == "by is missing: who asks for it");
  CHECK(refusal(R"({"rank": 3})") == "field 'rank' is not known here");
}

TEST_CASE("All that a silence names must fit, a host also as the other end of a link") {
  Json v = {{"state", "confirmed"}, {"job", "demo"}, {"kind", "SLOW"},
            {"culprits", Json::array({{{"host", "a"}, {"peer_host", "b"}, {"component", "link"}}})}};
  const auto silenced = [&](const Silence& s, int64_t now_ms = start_ms) {
    report::set_silenced(v, {s}, now_ms);
    return !v["silenced"].is_null();
  };
  CHECK(silenced(of_host("a")));
  CHECK(silenced(of_host("b")));
  CHECK_FALSE(silenced(of_host("c")));
  CHECK_FALSE(silenced(of_host("a"), start_ms + hour_ms));  // its time is over
  Silence s = of_host("a");
  s.kind = "hang";
  CHECK_FALSE(silenced(s));
  s.kind = "slow";
  s.component = "link";
  s.job = "demo";
  CHECK(silenced(s));
  v["state"] = "resolved";
  CHECK_FALSE(silenced(s));
}

TEST_CASE("Silences outlive the service, end by themselves or when told to, and numbers are not given twice") {
  const Folder folder;
  {
    const auto reporter = open_reporter(folder, "first", start_ms);
    REQUIRE(add_silence(of_host("a"), start_ms, *reporter, timeout).ok());
    REQUIRE(add_silence(of_host("b"), start_ms, *reporter, timeout).ok());
    CHECK(silences_answer(start_ms, *reporter)["silences"].size() == 2);
    REQUIRE(end_silence(2, start_ms, *reporter, timeout).ok());
    CHECK(absl::IsNotFound(end_silence(2, start_ms, *reporter, timeout).status()));
  }
  {
    const auto reporter = open_reporter(folder, "second", start_ms + 1);
    REQUIRE(silences_answer(start_ms + 1, *reporter)["silences"].size() == 1);
    CHECK(silences_answer(start_ms + hour_ms, *reporter)["silences"].empty());
    CHECK(add_silence(of_host("c"), start_ms + 1, *reporter, timeout).value()["silence"]["silence"] == 3);
  }
  CHECK(silences_answer(start_ms, *open_reporter(folder, "third", start_ms + 2 * hour_ms))["silences"].empty());
}

TEST_CASE("There are not more silences than an operator can look through") {
  Reporter reporter(*VerdictWriter::open("/dev/null"), nullptr, {});
  for (size_t i = 0; i < server::OperatorBook::silences_max; ++i)
    REQUIRE(add_silence(of_host("a"), start_ms, reporter, timeout).ok());
  CHECK(absl::IsFailedPrecondition(add_silence(of_host("a"), start_ms, reporter, timeout).status()));
  CHECK(add_silence(of_host("a"), start_ms + hour_ms, reporter, timeout).ok());
}

}  // namespace ccld::test
