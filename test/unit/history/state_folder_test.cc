#include "decision/history/state_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "test/unit/history/verdicts.h"

namespace ccld::test {

TEST_CASE("One service at a time holds a state folder, and the other one learns which") {
  const Folder folder;
  const std::string path = folder.file("a/b");
  CHECK_FALSE(holder_of(path).has_value());
  {
    const auto held = StateFolder::open(path);
    REQUIRE(held.ok());
    CHECK(holder_of(path) == getpid());
    const absl::Status second = StateFolder::open(path).status();
    CHECK(std::string(second.message()).find("is in use by another service (process " + std::to_string(getpid()) + ")") != std::string::npos);
  }
  CHECK_FALSE(holder_of(path).has_value());
  CHECK(StateFolder::open(path).ok());
}

TEST_CASE("A folder that cannot be written is named") {
  const absl::Status status = StateFolder::open("/proc/nowhere").status();
  CHECK(absl::IsUnavailable(status));
  CHECK(std::string(status.message()).find("'/proc/nowhere'") != std::string::npos);
}

TEST_CASE("The reserve is room that is there until it is needed") {
  const Folder folder;
  auto state = *StateFolder::open(folder.path);
  CHECK_FALSE(state.release_reserve());
  state.keep_reserve();
  CHECK(std::filesystem::file_size(folder.file("reserve")) == reserve_bytes);
  CHECK(state.release_reserve());
  CHECK_FALSE(std::filesystem::exists(folder.file("reserve")));
}

TEST_CASE("Databases set aside keep their log, and only the newest stay") {
  const Folder folder;
  const auto exists = [](const std::string& path) { return std::filesystem::exists(path); };
  auto state = *StateFolder::open(folder.path);
  std::vector<std::string> aside;
  for (int64_t day = 0; day < 5; ++day) {
    std::ofstream(database_path(folder.path)) << "x";
    std::ofstream(database_path(folder.path) + "-wal") << "x";
    aside.push_back(state.set_aside(start_ms + day * ms_per_day).value());
    CHECK_FALSE(exists(database_path(folder.path)));
    CHECK_FALSE(exists(database_path(folder.path) + "-wal"));
  }
  CHECK(exists(aside[4]));
  CHECK(exists(aside[4] + "-wal"));
  CHECK(exists(aside[2]));
  CHECK_FALSE(exists(aside[1]));
}

}  // namespace ccld::test
