#include "decision/settings.h"

#include <catch2/catch.hpp>

#include <set>

namespace ccld::decision {

TEST_CASE("A setting is parsed into its field and nothing else") {
  Settings s;
  REQUIRE(parse_setting(s, " hang_suspect_s = 2.5 ").ok());
  CHECK(s.hang_suspect_s == 2.5);
  REQUIRE(parse_setting(s, "slow_repeat=7").ok());
  CHECK(s.slow_repeat == 7);
  REQUIRE(parse_setting(s, "rules=paper").ok());
  CHECK(s.rules == RuleSet::paper);
  REQUIRE(parse_setting(s, "rules=default").ok());
  CHECK(s.rules == Settings{}.rules);
  CHECK(s.slow_theta == Settings{}.slow_theta);
}

TEST_CASE("Config files and recordings that call the default rules measured are read") {
  Settings s;
  REQUIRE(parse_setting(s, "rules=paper").ok());
  REQUIRE(parse_setting(s, "rules=measured").ok());
  CHECK(*setting_text(s, "rules") == "default");
}

TEST_CASE("A wrong setting leaves everything as it was and names the field and its range") {
  Settings s;
  for (const char* text : {"slow_theta=much", "slow_theta=-1", "slow_theta=nan", "slow_theta="}) {
    const absl::Status status = parse_setting(s, text);
    REQUIRE_FALSE(status.ok());
    CHECK(std::string(status.message()).find("slow_theta") != std::string::npos);
    CHECK(std::string(status.message()).find("0.01 .. 1000000") != std::string::npos);
  }
  CHECK(s.slow_theta == Settings{}.slow_theta);
  CHECK(std::string(parse_setting(s, "rules=mine").message()).find("default | paper") != std::string::npos);
  CHECK(std::string(parse_setting(s, "slow_repeat=1.5").message()).find("slow_repeat") != std::string::npos);
  CHECK(std::string(parse_setting(s, "slow_repeat=1.5").message()).find("a whole number, 1 .. 1000000") != std::string::npos);
  CHECK(std::string(parse_setting(s, "slow_thetta=1").message()).find("slow_thetta") != std::string::npos);
  CHECK_FALSE(parse_setting(s, "slow_theta").ok());
}

TEST_CASE("Every setting has a name, a default within its range, help and a reason, and round-trips") {
  std::set<std::string> names;
  for (const SettingRow& row : describe_settings()) {
    INFO(row.name);
    CHECK(names.insert(std::string(row.name)).second);
    CHECK_FALSE(row.help.empty());
    CHECK_FALSE(row.reason.empty());
    Settings s;
    CHECK(set_setting(s, row.name, row.default_text).ok());
    CHECK(*setting_text(s, row.name) == row.default_text);
  }
  CHECK(names.size() >= 30);
}

TEST_CASE("Settings that contradict each other are refused") {
  Settings s;
  CHECK(check_settings(s).ok());
  s.hang_confirm_s = 1;
  CHECK_FALSE(check_settings(s).ok());
  s = {};
  s.slow_alpha = 0.9;
  CHECK_FALSE(check_settings(s).ok());
}

}  // namespace ccld::decision
