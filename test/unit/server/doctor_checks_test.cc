#include "decision/cli/doctor_checks.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "test/support/files/folder.h"

namespace ccld::decision {
namespace {

// A /proc in which process 7 has a library mapped.
struct FakeProc {
  explicit FakeProc(const std::string& library) {
    std::filesystem::create_directories(folder.path / "7" / "root" / "lib");
    std::ofstream(folder.path / "7" / "maps") << "7f00-7f01 r-xp 00000000 08:01 42    /lib/libnccl.so.2.29.7\n";
    std::ofstream(folder.path / "7" / "root" / "lib" / "libnccl.so.2.29.7", std::ios::binary) << library;
  }
  std::vector<Finding> check(const std::vector<uint32_t>& pids) const {
    DoctorOptions options;
    options.pids = pids;
    options.proc_dir = folder.path;
    options.dir = folder.file("no-frames");
    return check_processes(options, nullptr);
  }
  test::Folder folder;
};

}  // namespace

TEST_CASE("A library of somebody else is told by what it does not know") {
  const auto found = FakeProc("NCCL_DEBUG NCCL_ALGO").check({7});
  REQUIRE(found.size() == 1);
  CHECK(text_of(found[0]) ==
        "FAIL  pid 7: libnccl is not ours (/lib/libnccl.so.2.29.7)  -> LD_LIBRARY_PATH or LD_PRELOAD must name ours before it starts");
}

TEST_CASE("Our library is known wherever the name of the setting lies in the file") {
  constexpr size_t block = 1 << 20;
  for (const size_t at : {size_t{0}, block - 7, block, 2 * block - 1, 3 * block}) {
    const auto found = FakeProc(std::string(at, 'x') + "NCCL_PROBE_ENDPOINT").check({});
    REQUIRE(found.size() == 2);
    CHECK(text_of(found[0]) == "ok    pid 7: our libnccl is loaded (/lib/libnccl.so.2.29.7)");
    CHECK(found[1].health == Health::warn);
    CHECK(found[1].what.find("no process file") != std::string::npos);
  }
}

TEST_CASE("A process that is not there, and a folder that is not, are findings") {
  const FakeProc proc("");
  const auto found = proc.check({8});
  REQUIRE(found.size() == 1);
  CHECK(found[0].health == Health::fail);
  DoctorOptions options;
  options.dir = proc.folder.file("none");
  CHECK(check_folder(options).front().health == Health::fail);
  options.dir = proc.folder.path;
  CHECK(check_folder(options).back().health == Health::ok);
}

TEST_CASE("A finding is one line, whatever is in it") {
  CHECK(text_of({Health::warn, "a\nb", "c\x1b"}) == "warn  a?b  -> c?");
  CHECK(text_of({Health::ok, "a", ""}) == "ok    a");
}

}  // namespace ccld::decision
