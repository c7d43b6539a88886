#include "decision/server/layout_file.h"

#include <catch2/catch.hpp>

#include "decision/settings.h"

namespace ccld::decision::server {
namespace {

std::string error_of(const std::string& text) {
  const auto settings = parse_layout(text, "job.json");
  return settings.ok() ? "" : std::string(settings.status().message());
}

}  // namespace

TEST_CASE("A layout file becomes settings that are valid") {
  const auto texts = parse_layout(R"({"tp": 8, "pp": 4, "dp": 16, "ep": 8, "order": "tp-pp-dp"})", "job.json");
  REQUIRE(texts.ok());
  Settings s;
  for (const std::string& text : *texts) CHECK(parse_setting(s, text).ok());
  CHECK(s.layout_tp == 8);
  CHECK(s.layout_pp == 4);
  CHECK(s.layout_dp == 16);
  CHECK(s.layout_ep == 8);
  CHECK(s.layout_order == "tp-pp-dp");
  CHECK(check_settings(s).ok());
}

TEST_CASE("Sizes that a layout file leaves out are one") {
  const auto texts = parse_layout(R"({"dp": 4})", "job.json");
  REQUIRE(texts.ok());
  Settings s;
  for (const std::string& text : *texts) CHECK(parse_setting(s, text).ok());
  CHECK(s.layout_tp == 1);
  CHECK(s.layout_pp == 1);
  CHECK(s.layout_ep == 0);
  CHECK(check_settings(s).ok());
}

TEST_CASE("Errors of a layout file name the file and the field") {
  CHECK(error_of("[]").find("job.json") != std::string::npos);
  CHECK(error_of("{").find("job.json") != std::string::npos);
  CHECK(error_of(R"({"tp": 0})").find("\"tp\"") != std::string::npos);
  CHECK(error_of(R"({"pp": "4"})").find("\"pp\"") != std::string::npos);
  CHECK(error_of(R"({"dp": 4, "ep": 3})").find("\"ep\"") != std::string::npos);
  CHECK(error_of(R"({"order": "tp-tp"})").find("\"order\"") != std::string::npos);
  CHECK(error_of(R"({"tensor": 4})").find("\"tensor\"") != std::string::npos);
  CHECK(std::string(read_layout_file("/nonexistent/job.json").status().message()).find("/nonexistent/job.json") != std::string::npos);
}

}  // namespace ccld::decision::server
