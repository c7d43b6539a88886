#include "decision/validate/past.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "test/support/files/folder.h"

namespace ccld::decision::validate {
namespace {

Past one() {
  Past past;
  past[{Check::link, "a", "0000:10:00.0", "b", "0000:11:00.0", "NET/IB", 64e6}] = {1, 1.5, 2};
  past[{Check::gemm, "a", "0000:10:00.0", "", "", "", 0}] = {3, 3.5, 4};
  return past;
}

std::string refused(const std::string& text) {
  const test::Folder folder;
  const std::string path = folder.file("past.json");
  std::ofstream(path) << text;
  const auto past = read_past(path);
  return past.ok() ? "" : std::string(past.status().message());
}

TEST_CASE("A past that was written is read again") {
  const test::Folder folder;
  REQUIRE(write_past(folder.file("past.json"), one()).ok());
  const auto read = read_past(folder.file("past.json"));
  REQUIRE(read.ok());
  CHECK(read->size() == 2);
  const auto& [key, ms] = *read->begin();
  CHECK(key == one().begin()->first);
  CHECK(ms.high == 4);
}

TEST_CASE("A file that is no past is refused with its name and the reason") {
  CHECK(refused("{").find("past.json' is no past") != std::string::npos);
  CHECK(refused("[]").find("past.json' is no past") != std::string::npos);
  CHECK(refused(R"({"schema": "other/1", "rows": []})").find("schema ccld-validate-past/1 is expected") !=
        std::string::npos);
  const std::string row =
      R"({"check": "gemm", "host": "a", "bus_id": "b", "peer_host": null, "peer_bus_id": null, "kind": null, "bytes": 0,
                              "low_ms": 1, "middle_ms": 1, "high_ms": )";
  const std::string head = R"({"schema": "ccld-validate-past/1", "rows": [)";
  CHECK(refused(head + row + "1}]}").empty());
  CHECK(refused(head + row + "-1}]}").find("high_ms must be more than 0") != std::string::npos);
  CHECK(refused(head + R"({"check": "ping"}]})").find("there is no check 'ping'") != std::string::npos);
}

TEST_CASE("A file that is not there, or cannot be written, is an error with its name") {
  CHECK(std::string(read_past("/none/past.json").status().message()).find("/none/past.json") != std::string::npos);
  CHECK(std::string(write_past("/none/past.json", one()).message()).find("/none/past.json") != std::string::npos);
}

}  // namespace
}  // namespace ccld::decision::validate
