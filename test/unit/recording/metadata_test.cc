#include "decision/recording/metadata.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {

TEST_CASE("Metadata names the settings that differ from the defaults, and they come back") {
  Settings settings;
  REQUIRE(parse_setting(settings, "hang_confirm_s=17.5").ok());
  REQUIRE(parse_setting(settings, "rules=paper").ok());
  const Metadata m = metadata_of(settings, "service", 5, 6);
  CHECK(m.settings == std::vector<std::pair<std::string, std::string>>{{"rules", "paper"}, {"hang_confirm_s", "17.5"}});
  const auto again = parse_metadata(report::to_line(to_json(m)));
  REQUIRE(again.ok());
  CHECK(again->settings == m.settings);
  CHECK(again->host == m.host);
  CHECK(again->started_ns == 5);
  CHECK(again->started_realtime_ns == 6);
  std::vector<std::string> warnings;
  const Settings back = settings_of(*again, warnings);
  CHECK(warnings.empty());
  CHECK(back.hang_confirm_s == 17.5);
  CHECK(back.rules == RuleSet::paper);
  CHECK(back.hang_suspect_s == Settings().hang_suspect_s);
}

TEST_CASE("A recorded setting that this version does not know keeps its default, with a warning") {
  Metadata m;
  m.settings = {{"no_such_setting", "1"}, {"hang_confirm_s", "minus one"}, {"hang_suspect_s", "3"}};
  std::vector<std::string> warnings;
  const Settings settings = settings_of(m, warnings);
  REQUIRE(warnings.size() == 2);
  CHECK(contains(warnings[0], "no_such_setting"));
  CHECK(contains(warnings[1], "hang_confirm_s"));
  CHECK(settings.hang_suspect_s == 3);
  CHECK(settings.hang_confirm_s == Settings().hang_confirm_s);
}

TEST_CASE("Metadata that is not what it should be is refused by field") {
  const report::Json good = to_json(Metadata{});
  for (const char* field : {"source", "ccld", "host", "started_clock_ns", "started_realtime_ns", "settings"}) {
    report::Json wrong = good;
    wrong[field] = report::Json::array();
    CHECK(contains(parse_metadata(wrong.dump()).status().message(), field));
    wrong.erase(field);
    CHECK(contains(parse_metadata(wrong.dump()).status().message(), field));
  }
  CHECK_FALSE(parse_metadata("[]").ok());
  CHECK_FALSE(parse_metadata("{").ok());
  CHECK_FALSE(parse_metadata(std::string(metadata_bytes_max + 1, ' ')).ok());
  report::Json wrong = good;
  wrong["settings"]["x"] = 5;
  CHECK(contains(parse_metadata(wrong.dump()).status().message(), "setting \"x\""));
  wrong = good;
  wrong["from_the_future"] = 5;
  CHECK(parse_metadata(wrong.dump()).ok());
}

TEST_CASE("A verdict about a hundred thousand ranks fits, without its lists") {
  report::Json verdict = {{"incident", 7}, {"class", "H1"}, {"ranks", report::Json::array()}, {"culprits", report::Json::array()}};
  CHECK(fitting(verdict) == verdict);
  for (int rank = 0; rank < 100'000; ++rank) {
    verdict["ranks"].push_back(rank);
    verdict["culprits"].push_back({{"rank", rank}});
  }
  Metadata m;
  m.incident = fitting(verdict);
  CHECK(m.incident["class"] == "H1");
  CHECK(parse_metadata(report::to_line(to_json(m))).ok());
}

TEST_CASE("An ending gives back its counts") {
  const auto e = parse_ending(report::to_line(to_json(Ending{.messages = 1, .ticks = 2, .missing = 3, .reason = "limit"})));
  REQUIRE(e.ok());
  CHECK(e->messages == 1);
  CHECK(e->ticks == 2);
  CHECK(e->missing == 3);
  CHECK(e->reason == "limit");
  CHECK_FALSE(parse_ending("{\"messages\": -1}").ok());
}

}  // namespace ccld::test
