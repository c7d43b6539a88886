#include "decision/server/thread_count.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "test/support/files/folder.h"

namespace ccld::decision::server {

TEST_CASE("A number of threads is auto, or from 1 to the most there may be; else the error says so") {
  CHECK(threads_of("3").value() == 3);
  CHECK(threads_of("64").value() == threads_max);
  for (const char* text : {"0", "65", "-1", "two", ""})
    CHECK(threads_of(text).status().message() ==
          std::string("'") + text + "' is neither auto nor a number from 1 to 64");
}

TEST_CASE("There are as many threads as processors, and no more than the control groups pay for") {
  namespace fs = std::filesystem;
  const test::Folder folder;
  const fs::path proc = folder.path / "proc", groups = folder.path / "groups";
  fs::create_directories(proc / "self");
  fs::create_directories(groups / "pod/container");
  std::ofstream(proc / "self/cgroup") << "0::/pod/container\n";
  const auto threads = [&] { return threads_of("auto", proc.string(), groups.string()).value(); };
  const size_t processors = std::min<size_t>(std::thread::hardware_concurrency(), threads_auto_max);
  CHECK(threads() == processors);
  std::ofstream(groups / "pod/container/cpu.max") << "max 100000\n";
  CHECK(threads() == processors);
  std::ofstream(groups / "pod/cpu.max") << "190000 100000\n";
  CHECK(threads() == 1);
  std::ofstream(groups / "pod/cpu.max") << "6400000 100000\n";
  CHECK(threads() == processors);
  std::ofstream(groups / "pod/container/cpu.max") << "20000 100000\n";
  CHECK(threads() == 1);
}

}  // namespace ccld::decision::server
