#include "test/support/workload/micro_batch_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace ccld::workload {
namespace {

std::string error_of(const std::string& text) {
  try {
    parse_micro_batches(text, 2);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

void replace(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  REQUIRE(rename((path + ".new").c_str(), path.c_str()) == 0);
}

}  // namespace

TEST_CASE("Replicas take the numbers of the file from its round on") {
  const std::string path = "/tmp/ccld-micro-batches-" + std::to_string(getpid());
  MicroBatchFile file(path, 2);
  file.refresh();  // there is none yet
  CHECK(file.count(1, 0, 8) == 8);
  replace(path, R"({"from_round": 5, "micro_batches": [11, 5]})");
  file.refresh();
  CHECK(file.count(4, 0, 8) == 8);
  CHECK(file.count(5, 0, 8) == 11);
  CHECK(file.count(5, 1, 8) == 5);
  // Further numbers; until their round the last ones stay.
  replace(path, R"({"from_round": 9, "micro_batches": [10, 6]})");
  file.refresh();
  CHECK(file.count(8, 1, 8) == 5);
  CHECK(file.count(9, 1, 8) == 6);
  // What cannot be used changes nothing.
  replace(path, "[");
  file.refresh();
  CHECK(file.count(10, 1, 8) == 6);
  CHECK(unlink(path.c_str()) == 0);
}

TEST_CASE("Without a file the options count") {
  MicroBatchFile none("", 2);
  none.refresh();
  CHECK(none.count(3, 1, 4) == 4);
}

TEST_CASE("Errors of a file of micro-batches name the field") {
  CHECK(error_of(R"({"from_round": 5, "micro_batches": [11, 5]})").empty());
  CHECK(error_of("[]") == "is no JSON object");
  CHECK(error_of(R"({"micro_batches": [1, 1]})").find("'from_round'") == 0);
  CHECK(error_of(R"({"from_round": -1, "micro_batches": [1, 1]})").find("'from_round'") == 0);
  CHECK(error_of(R"({"from_round": 1, "micro_batches": [1]})").find("'micro_batches'") == 0);
  CHECK(error_of(R"({"from_round": 1, "micro_batches": [1, 0]})").find("'micro_batches': 0") == 0);
  CHECK(error_of(R"({"from_round": 1, "micro_batches": [1, 65]})").find("'micro_batches': 65") == 0);
  CHECK(error_of(R"({"from_round": 1, "micro_batches": [1, 1], "x": 1})").find("'x'") == 0);
}

}  // namespace ccld::workload
