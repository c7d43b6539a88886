#include "probe/settings.h"

#include <fstream>
#include <map>
#include <sstream>

#include <catch2/catch.hpp>

namespace ccld::probe {
namespace {

Settings parse(const std::map<std::string, std::string>& variables, std::vector<std::string>* warnings = nullptr) {
  return parse_settings(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      warnings);
}

TEST_CASE("an empty environment gives the defaults without a warning") {
  std::vector<std::string> warnings;
  const Settings s = parse({}, &warnings);
  CHECK(warnings.empty());
  CHECK(s.enable);
  CHECK(s.endpoint.empty());
  CHECK(s.job == "default");
  CHECK(s.frames_dir == "/dev/shm");
  CHECK(s.sample_us == 1000);
  CHECK(s.heartbeat_ms == 1000);
  CHECK(s.late_report_ms == 100);
  CHECK(s.stale_keep_s == 600);
}

TEST_CASE("values are taken from the environment") {
  const Settings s = parse({{"NCCL_PROBE_ENABLE", "0"},
                            {"NCCL_PROBE_ENDPOINT", "tcp://127.0.0.1:5566"},
                            {"NCCL_PROBE_SAMPLE_US", "250"},
                            {"NCCL_PROBE_JOB", "llm 7"}});
  CHECK_FALSE(s.enable);
  CHECK(s.endpoint == "tcp://127.0.0.1:5566");
  CHECK(s.sample_us == 250);
  CHECK(s.job == "llm 7");
}

TEST_CASE("an endpoint may be several") {
  std::vector<std::string> warnings;
  const std::string list = "tcp://a:5566,tcp://b:5566,ipc:///run/ccld";
  CHECK(parse({{"NCCL_PROBE_ENDPOINT", list}}, &warnings).endpoint == list);
  CHECK(warnings.empty());
}

TEST_CASE("the job is Slurm's unless it is given") {
  CHECK(parse({{"SLURM_JOB_ID", "4711"}}).job == "4711");
  CHECK(parse({{"SLURM_JOB_ID", "4711"}, {"NCCL_PROBE_JOB", "mine"}}).job == "mine");
  CHECK(parse({{"SLURM_JOB_ID", ""}}).job == "default");
}

TEST_CASE("a wrong value is one warning that names variable, value and range, and its default is used") {
  std::vector<std::string> warnings;
  SECTION("too small") {
    CHECK(parse({{"NCCL_PROBE_SAMPLE_US", "99"}}, &warnings).sample_us == 1000);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] ==
          "NCCL_PROBE_SAMPLE_US=\"99\" is not usable (accepted: 100 to 1000000), using the default \"1000\"");
  }
  SECTION("not a number") {
    for (const char* text : {"", "x", "1ms", "1e3", " 5", "99999999999999999999"}) {
      warnings.clear();
      CHECK(parse({{"NCCL_PROBE_SAMPLE_US", text}}, &warnings).sample_us == 1000);
      CHECK(warnings.size() == 1);
    }
  }
  SECTION("not a switch") {
    CHECK(parse({{"NCCL_PROBE_ENABLE", "yes"}}, &warnings).enable);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].find("accepted: 0 or 1") != std::string::npos);
  }
  SECTION("not an endpoint") {
    std::string nine = "tcp://a:1";
    for (int i = 1; i < 9; ++i) nine += ",tcp://a:1";
    for (const std::string text : {"localhost:5566", "://x", "tcp://", "tcp://a:1,,tcp://b:1", "tcp://a:1,",
                                   ",tcp://a:1", "tcp://a:1, tcp://b:1", "tcp://a:1,b:1", nine.c_str()}) {
      warnings.clear();
      CHECK(parse({{"NCCL_PROBE_ENDPOINT", text}}, &warnings).endpoint.empty());
      REQUIRE(warnings.size() == 1);
      CHECK(warnings[0].find("NCCL_PROBE_ENDPOINT=\"" + text +
                             "\" is not usable (accepted: transport://address, up to 8") == 0);
    }
  }
  SECTION("a relative folder") {
    CHECK(parse({{"NCCL_PROBE_FRAMES_DIR", "frames"}}, &warnings).frames_dir == "/dev/shm");
    CHECK(warnings.size() == 1);
  }
  SECTION("a job that does not fit into the frame") {
    CHECK(parse({{"NCCL_PROBE_JOB", std::string(64, 'j')}}, &warnings).job == "default");
    CHECK(warnings.size() == 1);
    CHECK(parse({{"NCCL_PROBE_JOB", "a\nb"}}, &warnings).job == "default");
    CHECK(warnings.size() == 2);
  }
}

TEST_CASE("a wrong key is kept as it is: its default would be telemetry without keys") {
  std::vector<std::string> warnings;
  const Settings s = parse({{"NCCL_PROBE_SERVER_KEY", "no key"}, {"NCCL_PROBE_KEY_FILE", "no/path"}}, &warnings);
  CHECK(s.server_key == "no key");
  CHECK(s.key_file == "no/path");
  CHECK(warnings.empty());  // said where they are used, once
  CHECK(parse({}).server_key.empty());
}

TEST_CASE("the README's table is the table of the settings") {
  std::ifstream file(CCLD_PROBE_README);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  INFO("expected table:\n" << settings_markdown());
  CHECK(text.str().find(settings_markdown()) != std::string::npos);
}

}  // namespace
}  // namespace ccld::probe
