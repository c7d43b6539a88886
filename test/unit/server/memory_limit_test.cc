#include "decision/server/memory_limit.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "test/support/files/folder.h"

namespace ccld::decision::server {

TEST_CASE("The limit of memory is a number of bytes, none, or what the control group may have") {
  CHECK(memory_max_of("none").value() == 0);
  CHECK(memory_max_of("512M").value() == uint64_t{512} << 20);
  CHECK(memory_max_of("1M").status().message() == "'1M' is less than 64M, which the service needs itself");
  CHECK_FALSE(memory_max_of("much").ok());
}

TEST_CASE("The least limit of the control groups counts, with a tenth left to the kernel") {
  namespace fs = std::filesystem;
  const test::Folder folder;
  const fs::path proc = folder.path / "proc", groups = folder.path / "groups";
  fs::create_directories(proc / "self");
  fs::create_directories(groups / "pod/container");
  const auto limit = [&] { return memory_max_of("auto", proc.string(), groups.string()).value(); };
  CHECK(limit() == 0);
  std::ofstream(proc / "self/cgroup") << "1:name=systemd:/old\n0::/pod/container\n";
  CHECK(limit() == 0);
  std::ofstream(groups / "pod/container/memory.max") << "max\n";
  CHECK(limit() == 0);
  std::ofstream(groups / "pod/memory.max") << "1000000000\n";
  CHECK(limit() == 900'000'000);
  std::ofstream(groups / "pod/container/memory.max") << "500000000\n";
  CHECK(limit() == 450'000'000);
  std::ofstream(groups / "memory.max") << "1000000\n";
  CHECK(limit() == 0);  // nothing runs in that: no reason to forget everybody
}

TEST_CASE("The memory that this process has grows with what it touches") {
  const uint64_t before = resident_bytes();
  constexpr size_t bytes = size_t{64} << 20;
  const std::vector<char> touched(bytes, 1);
  CHECK(resident_bytes() > before + bytes / 2);
}

}  // namespace ccld::decision::server
