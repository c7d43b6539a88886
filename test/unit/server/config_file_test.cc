#include "decision/server/config_file.h"

#include <catch2/catch.hpp>

using namespace ccld::decision::server;

namespace {

const std::vector<std::string> known = {"listen", "rules"};

std::string error_of(const std::string& text) {
  const auto config = parse_config(text, "x.toml", known);
  REQUIRE_FALSE(config.ok());
  return std::string(config.status().message());
}

}  // namespace

TEST_CASE("A config file gives flags and settings") {
  const auto config = parse_config(R"(
# a comment
listen = "tcp://127.0.0.1:7000"   # another
rules = paper
set = ["hang_suspect_s=2", "frozen_s=3"]
[settings]
hang_confirm_s = 60
)",
                                   "x.toml", known);
  REQUIRE(config.ok());
  CHECK(config->values == std::map<std::string, std::string>{{"listen", "tcp://127.0.0.1:7000"}, {"rules", "paper"}});
  CHECK(config->settings == std::vector<std::string>{"hang_suspect_s=2", "frozen_s=3", "hang_confirm_s=60"});
}

TEST_CASE("A [serve] section reads like the top of the file, and an empty file is fine") {
  CHECK(parse_config("[serve]\nrules=paper\n", "x", known)->values.at("rules") == "paper");
  CHECK(parse_config("", "x", known)->values.empty());
}

TEST_CASE("A wrong key, section or repetition is named together with the file") {
  CHECK(error_of("lisen = 3") == "config x.toml: 'lisen' is not known; known are listen, rules, set and [settings]");
  CHECK(error_of("[setings]\na = 3") == "config x.toml: section [setings] is not known; known are [serve] and [settings]");
  CHECK(error_of("rules = [1, 2]") == "config x.toml: 'rules' needs one value");
  CHECK(error_of("rules = a\nlisten = b\nrules = c") == "config x.toml: 'rules' is given twice");
  CHECK(error_of("nonsense without equals sign").find("config x.toml: 'nonsense") == 0);
}

TEST_CASE("A file that cannot be read is an error that names it") {
  for (const char* path : {"/does/not/exist", "/"}) {
    const auto config = read_config_file(path, known);
    REQUIRE_FALSE(config.ok());
    CHECK(std::string(config.status().message()).find(std::string("config ") + path + ": cannot be read: ") == 0);
  }
}
