#include "decision/server/verdict_writer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "test/unit/server/log_text.h"

using namespace ccld::decision::server;
using ccld::test::LogText;

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

VerdictWriter opened(const std::filesystem::path& path) {
  auto writer = VerdictWriter::open(path);
  REQUIRE(writer.ok());
  return *std::move(writer);
}

// What came through a pipe so far.
std::string arrived(int fd) {
  char text[256];
  const ssize_t n = read(fd, text, sizeof text);
  return {text, n > 0 ? static_cast<size_t>(n) : 0};
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

TEST_CASE("Lines that cannot be written are said once, also after the path could not be opened again") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl";
  std::filesystem::create_symlink("first", file);
  const LogText log;
  auto writer = opened(file);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  writer.write_line("one");
  CHECK(writer.errors() == 1);
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small { 5, before.rlim_max };
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  writer.write_line("two");
  writer.write_line("three");
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, signal_before);
  CHECK(log.count("verdicts cannot be written to") == 1);
  CHECK(content(folder.path / "first") == "one\nt");
  std::filesystem::resize_file(folder.path / "first", 0);
  writer.write_line("four");  // no empty line where a torn one was
  CHECK(content(folder.path / "first") == "four\n");
}

TEST_CASE("After its file was renamed the next line is in a file of the name, with the same permissions") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl", rotated = folder.path / "verdicts.jsonl.1";
  auto writer = opened(file);
  std::filesystem::permissions(file, std::filesystem::perms(0640));
  writer.write_line("one");
  std::filesystem::rename(file, rotated);
  writer.write_line("two");
  writer.write_line("three");
  CHECK(content(rotated) == "one\n");
  CHECK(content(file) == "two\nthree\n");
  CHECK(std::filesystem::status(file).permissions() == std::filesystem::perms(0640));
  CHECK(writer.lines() == 3);
  CHECK(writer.errors() == 0);
}

TEST_CASE("After its file was removed the next line is in a new one") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl";
  auto writer = opened(file);
  writer.write_line("one");
  std::filesystem::remove(file);
  writer.write_line("two");
  CHECK(content(file) == "two\n");
}

TEST_CASE("A file that took the place of the renamed one is appended to") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl";
  auto writer = opened(file);
  writer.write_line("one");
  std::filesystem::rename(file, folder.path / "verdicts.jsonl.1");
  std::ofstream(file) << "another's\ncut of";
  writer.write_line("two");
  CHECK(content(file) == "another's\ncut of\ntwo\n");
}

TEST_CASE("A link is followed to where it leads now") {
  const Folder folder;
  const auto link = folder.path / "verdicts.jsonl";
  std::filesystem::create_symlink("monday", link);
  auto writer = opened(link);
  writer.write_line("one");
  std::filesystem::remove(link);
  std::filesystem::create_symlink("tuesday", link);
  writer.write_line("two");
  CHECK(content(folder.path / "monday") == "one\n");
  CHECK(content(folder.path / "tuesday") == "two\n");
}

TEST_CASE("A file that was copied and truncated goes on from its beginning") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl";
  auto writer = opened(file);
  writer.write_line("one");
  std::filesystem::resize_file(file, 0);
  writer.write_line("two");
  CHECK(content(file) == "two\n");
}

TEST_CASE("While the path cannot be opened again lines go on into the old file, with one line of log") {
  const Folder folder;
  const auto file = folder.path / "verdicts.jsonl", rotated = folder.path / "verdicts.jsonl.1";
  const auto in_the_way = [&](const std::string& what) {
    if (what == "a folder")
      std::filesystem::create_directory(file);
    else
      REQUIRE(mkfifo(file.c_str(), 0600) == 0);  // nobody reads it: to open it would take for ever
  };
  const std::string what = GENERATE("a folder", "a FIFO");
  const LogText log;
  auto writer = opened(file);
  writer.write_line("one");
  std::filesystem::rename(file, rotated);
  in_the_way(what);
  writer.write_line("two");
  writer.write_line("three");
  CHECK(content(rotated) == "one\ntwo\nthree\n");
  CHECK(writer.lines() == 3);
  CHECK(writer.errors() == 2);
  CHECK(log.count("verdicts go on into the file that was " + file.string()) == 1);

  std::filesystem::remove(file);
  writer.write_line("four");
  CHECK(content(file) == "four\n");
  CHECK(writer.errors() == 2);
  std::filesystem::remove(file);
  in_the_way(what);
  writer.write_line("five");
  CHECK(log.count("verdicts go on into the file that was " + file.string()) == 2);
}

TEST_CASE("Standard output stays what it is when files come and go") {
  const Folder folder;
  const auto old_place = std::filesystem::current_path();
  std::filesystem::current_path(folder.path);
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
  std::fflush(stdout);
  const int kept = dup(STDOUT_FILENO);
  REQUIRE(dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
  auto writer = VerdictWriter::open("-");
  writer->write_line("one");
  std::ofstream("-") << "a file";
  writer->write_line("two");
  dup2(kept, STDOUT_FILENO);
  close(kept);
  std::filesystem::current_path(old_place);
  CHECK(arrived(ends[0]) == "one\ntwo\n");
  CHECK(content(folder.path / "-") == "a file");
  close(ends[0]), close(ends[1]);
}

TEST_CASE("A FIFO is written to as long as it is open, whatever becomes of its name") {
  const Folder folder;
  const auto fifo = folder.path / "verdicts.fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  auto writer = opened(fifo);
  writer.write_line("one");
  std::filesystem::remove(fifo);
  writer.write_line("two");
  CHECK(arrived(reader) == "one\ntwo\n");
  CHECK_FALSE(std::filesystem::exists(fifo));
  CHECK(writer.errors() == 0);
  close(reader);
}

// As /dev/stderr is.
TEST_CASE("A path that names a descriptor of ours stays what it is, also when its file is renamed") {
  const Folder folder;
  const auto file = folder.path / "log", rotated = folder.path / "log.1";
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0);
  auto writer = opened("/dev/fd/" + std::to_string(fd));
  writer.write_line("one");
  std::filesystem::rename(file, rotated);
  writer.write_line("two");
  CHECK(content(rotated) == "one\ntwo\n");
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(writer.errors() == 0);
  close(fd);
}
