#include "decision/server/verdict_writer.h"

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ccld::decision::server;

namespace {

struct Folder {
  Folder() {
    char text[] = "/tmp/ccld-verdicts-XXXXXX";
    path = mkdtemp(text);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

std::string content(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

}  // namespace

TEST_CASE("Lines are appended to what is there") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl";
  for (const char* line : {"{\"a\":1}", "{\"b\":2}"}) {
    auto writer = VerdictWriter::open(file);
    REQUIRE(writer.ok());
    writer->write_line(line);
    CHECK(writer->lines() == 1);
  }
  CHECK(content(file) == "{\"a\":1}\n{\"b\":2}\n");
}

TEST_CASE("A line that a kill cut off does not swallow the first one of the next run") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl";
  std::ofstream(file) << "{\"a\":1}\n{\"b";
  auto writer = VerdictWriter::open(file);
  REQUIRE(writer.ok());
  writer->write_line("{\"c\":3}");
  CHECK(content(file) == "{\"a\":1}\n{\"b\n{\"c\":3}\n");
}

TEST_CASE("A file that cannot be written is refused by name") {
  const Folder folder;
  const auto writer = VerdictWriter::open(folder.path / "no" / "such.jsonl");
  REQUIRE_FALSE(writer.ok());
  CHECK(std::string(writer.status().message()).find("such.jsonl': No such file or directory") != std::string::npos);
}

TEST_CASE("A line that cannot be written is counted and the writer goes on") {
  auto writer = VerdictWriter::open("/dev/full");
  REQUIRE(writer.ok());
  writer->write_line("one");
  writer->write_line("two");
  CHECK(writer->lines() == 0);
  CHECK(writer->errors() == 2);
}
