#include "decision/admission/reloader.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "decision/admission/files.h"
#include "test/support/files/folder.h"

namespace ccld::decision::admission {
namespace {

// What was read, and a way to wait for it.
class Readings {
 public:
  absl::Status read(const std::string& path) {
    auto text = read_file(path);
    const std::lock_guard lock(mutex_);
    ++count_;
    newest_ = text.ok() ? *text : "";
    changed_.notify_all();
    return text.status();
  }
  bool wait_for(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return newest_ == text; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string newest_ = "never read";
  int count_ = 0;
};

}  // namespace

TEST_CASE("A file is read again when it is replaced, written to, gone, or a link to it points elsewhere") {
  const test::Folder folder;
  const std::string path = folder.file("list");
  REQUIRE(replace_file(path, "one").ok());
  Readings readings;
  const Reloader reloader({{"--list", {path}, [&] { return readings.read(path); }}}, std::chrono::milliseconds(5));
  REQUIRE(readings.wait_for("one"));  // it may have changed since it was read first
  REQUIRE(replace_file(path, "two").ok());
  CHECK(readings.wait_for("two"));
  std::ofstream(path, std::ios::app) << ", three";
  CHECK(readings.wait_for("two, three"));
  std::filesystem::remove(path);
  CHECK(readings.wait_for(""));
  REQUIRE(replace_file(folder.file("elsewhere"), "four").ok());
  std::filesystem::create_symlink(folder.file("elsewhere"), path);
  CHECK(readings.wait_for("four"));
}

TEST_CASE("Files that belong together are read again together, and what does not change is read once more only") {
  const test::Folder folder;
  const std::string one = folder.file("one"), two = folder.file("two"), still = folder.file("still");
  for (const std::string& path : {one, two, still}) REQUIRE(replace_file(path, "before").ok());
  Readings pair, other;
  const Reloader reloader(
      {{"--pair", {one, two}, [&] { return pair.read(one); }}, {"--still", {still}, [&] { return other.read(still); }}},
      std::chrono::milliseconds(5));
  REQUIRE(pair.wait_for("before"));
  REQUIRE(other.wait_for("before"));
  const int before = pair.count();
  REQUIRE(replace_file(two, "after").ok());
  for (int i = 0; i < 2000 && pair.count() == before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(pair.count() == before + 1);
  CHECK(other.count() == 1);
}

}  // namespace ccld::decision::admission
