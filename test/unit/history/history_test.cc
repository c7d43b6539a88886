#include "decision/history/history.h"

#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "decision/history/reader.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

HistoryOptions options(const std::string& folder, const std::string& run = "first") {
  return {.folder = folder, .run = run_named(run), .limits = {.bytes_max = 64 << 20, .age_max_ms = ms_per_day}};
}

std::unique_ptr<History> open(const std::string& folder, const std::string& run = "first") {
  auto history = History::open(options(folder, run), start_ms);
  INFO(history.status().message());
  REQUIRE(history.ok());
  return *std::move(history);
}

size_t databases(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    count += name.find("history.db") == 0 && name.find("-wal") == std::string::npos && name.find("-shm") == std::string::npos;
  }
  return count;
}

// A file system of a few megabytes, which only root can make.
struct SmallDisk {
  explicit SmallDisk(const std::string& at, const char* size) : path(at) {
    std::filesystem::create_directories(path);
    mounted = geteuid() == 0 && mount("tmpfs", path.c_str(), "tmpfs", 0, (std::string("size=") + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted) umount2(path.c_str(), MNT_DETACH);
  }
  void fill() const {
    std::ofstream file(path + "/filler", std::ios::binary | std::ios::app);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  std::string path;
  bool mounted;
};

}  // namespace

TEST_CASE("Another folder that takes the place of ours is used from then on, and what its log holds stays") {
  const Folder parent;
  const std::string folder = parent.file("state"), old_disk = parent.file("old"), new_disk = parent.file("new");
  {
    const auto history = open(folder);
    REQUIRE(history->append({revision(1, 1)}, start_ms).ok());
    // As on a disk that was repaired: all that was stored is there, some of it in the log only.
    std::filesystem::create_directory(new_disk);
    for (const char* name : {"history.db", "history.db-wal", "lock"})
      std::filesystem::copy_file(folder + "/" + name, new_disk + "/" + name);
    std::filesystem::rename(folder, old_disk);
    REQUIRE(history->append({revision(2, 1)}, start_ms).ok());  // nothing is there: the old one still is
    std::filesystem::rename(new_disk, folder);
    REQUIRE(history->append({revision(2, 1), revision(3, 1)}, start_ms).ok());
    CHECK(holder_of(folder) == getpid());
  }
  HistoryReader reader = HistoryReader::open(database_path(folder)).value();
  for (const uint64_t id : {1, 2, 3}) CHECK(reader.newest(id).ok());
  CHECK_FALSE(HistoryReader::open(database_path(old_disk)).value().newest(3).ok());
}

TEST_CASE("Another folder that another service holds is left alone, and tried again") {
  const Folder parent;
  const std::string folder = parent.file("state");
  const auto history = open(folder);
  std::filesystem::rename(folder, parent.file("old"));
  {
    const auto other = open(folder, "second");
    CHECK(absl::IsUnavailable(history->append({revision(1, 1)}, start_ms)));
  }
  CHECK(history->append({revision(1, 1)}, start_ms).ok());
  CHECK(HistoryReader::open(database_path(folder)).value().newest(1).ok());
}

TEST_CASE("What somebody deletes under a service is put back, with all that was stored") {
  const Folder parent;
  const std::string folder = parent.file("state"), path = database_path(folder);
  const auto history = open(folder);
  std::filesystem::create_directory(recordings_path(folder));
  REQUIRE(history->append({revision(1, 1)}, start_ms).ok());
  REQUIRE(history->maintain(start_ms).ok());  // some of it may be in the file, some in its log
  REQUIRE(history->append({revision(2, 1)}, start_ms).ok());
  SECTION("the folder") { std::filesystem::remove_all(folder); }
  SECTION("the folder, of which an empty one took the place") {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directory(folder);
  }
  SECTION("the database") { std::filesystem::remove(path); }
  SECTION("the database and its log") {
    for (const char* part : {"", "-wal", "-shm"}) std::filesystem::remove(path + part);
  }
  SECTION("the lock") { std::filesystem::remove(folder + "/lock"); }
  REQUIRE(history->append({}, start_ms).ok());  // as the reporting thread does now and then
  {
    HistoryReader reader = HistoryReader::open(path).value();
    for (const uint64_t id : {1, 2}) CHECK(reader.newest(id).ok());
  }
  CHECK(std::filesystem::is_directory(recordings_path(folder)));
  CHECK(databases(folder) == 1);
  CHECK(holder_of(folder) == getpid());
  REQUIRE(history->append({revision(3, 1)}, start_ms).ok());
  CHECK(HistoryReader::open(path).value().newest(3).ok());
}

TEST_CASE("A deleted folder that another service has taken is left to it, and used when it is free") {
  const Folder parent;
  const std::string folder = parent.file("state");
  const auto history = open(folder);
  REQUIRE(history->append({revision(1, 1)}, start_ms).ok());
  std::filesystem::remove_all(folder);
  {
    const auto other = open(folder, "second");
    CHECK(absl::IsUnavailable(history->append({revision(2, 1)}, start_ms)));
  }
  CHECK(history->append({revision(2, 1)}, start_ms).ok());
  CHECK(HistoryReader::open(database_path(folder)).value().newest(2).ok());
}

TEST_CASE("A damaged database is set aside and a new history begins, at the start and later") {
  const Folder folder;
  open(folder.path)->append({revision(1, 1)}, start_ms).IgnoreError();
  std::ofstream(database_path(folder.path), std::ios::binary | std::ios::trunc) << std::string(20000, 'x');
  {
    const auto history = open(folder.path, "second");
    CHECK(history->last_id_before() == 0);
    CHECK(databases(folder.path) == 2);
    REQUIRE(history->append({revision(1, 1)}, start_ms).ok());

    // While it is in use: every page but those in memory is gone.
    std::filesystem::resize_file(database_path(folder.path), 100);
    std::filesystem::resize_file(database_path(folder.path) + "-wal", 0);
    absl::Status status = absl::OkStatus();
    for (uint64_t id = 2; id < 5 && status.ok(); ++id) status = history->append({revision(id, 1)}, start_ms + 1000);
  }
  // Whatever became of that, the next run has a history that works.
  const auto history = open(folder.path, "third");
  CHECK(history->append({revision(100, 1)}, start_ms).ok());
  CHECK(HistoryReader::open(database_path(folder.path)).value().newest(100).ok());
}

TEST_CASE("A line that was edited and is no verdict any more is left out where the service begins, and said to a reader") {
  const std::string edited = GENERATE("{}", "[]", R"({"incident": "1", "revision": 1})", R"({"incident": 1})");
  const Folder folder;
  REQUIRE(open(folder.path)->append({revision(1, 1), revision(2, 1)}, start_ms).ok());
  const std::string path = database_path(folder.path);
  REQUIRE(Database::open(path, Database::Mode::create)
              .value()
              ->run("UPDATE revisions SET verdict='" + edited + "' WHERE incident=1")
              .ok());
  const auto history = open(folder.path, "second");
  REQUIRE(history->left_open().size() == 1);
  CHECK(number_of(history->left_open()[0], "incident") == 2);
  CHECK(absl::IsDataLoss(HistoryReader::open(path).value().list({}).status()));
  CHECK(absl::IsDataLoss(HistoryReader::open(path).value().newest(1).status()));
}

TEST_CASE("Damage that only the tidying up meets is set aside, too") {
  const Folder folder;
  const auto history = open(folder.path);
  constexpr uint64_t incidents = 2000;  // of 4 KB: more than SQLite keeps in memory
  for (uint64_t id = 1; id <= incidents; ++id) {
    Revision r = revision(id, 1);
    r.line.pop_back();
    r.line += ",\"filler\":\"" + std::string(4000, 'x') + "\"}";
    REQUIRE(history->append({r}, start_ms).ok());
  }
  const std::string path = database_path(folder.path);
  const auto size = std::filesystem::file_size(path);
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << std::string(size, 'x');
  std::filesystem::resize_file(path + "-wal", 0);
  constexpr int64_t much_later_ms = start_ms + int64_t{1000} * 24 * 3600 * 1000;  // all of it is too old
  CHECK(absl::IsDataLoss(history->maintain(much_later_ms)));
  CHECK(history->maintain(much_later_ms).ok());
  CHECK(databases(folder.path) == 2);
  CHECK(history->append({revision(incidents + 1, 1)}, much_later_ms).ok());
}

TEST_CASE("Of damaged databases the newest three stay") {
  const Folder folder;
  for (int i = 0; i < 6; ++i) {
    std::ofstream(database_path(folder.path), std::ios::binary | std::ios::trunc) << std::string(20000, 'x');
    std::ofstream(database_path(folder.path) + "-wal", std::ios::binary) << "no log";
    REQUIRE(History::open(options(folder.path), start_ms + i).ok());
  }
  CHECK(databases(folder.path) == 1 + 3);
}

TEST_CASE("A newer database is left as it is") {
  const Folder folder;
  open(folder.path)->append({revision(1, 1)}, start_ms).IgnoreError();
  REQUIRE(Database::open(database_path(folder.path), Database::Mode::create).value()->run("PRAGMA user_version=1000").ok());
  CHECK_FALSE(History::open(options(folder.path), start_ms).ok());
  CHECK(databases(folder.path) == 1);
}

TEST_CASE("On a full disk the reserve holds what is found, and nothing that was refused is half there") {
  const Folder folder;
  const SmallDisk disk(folder.file("disk"), "40m");
  if (!disk.mounted) {
    WARN("skipped: only root can mount a small file system");
    return;
  }
  const auto history = open(disk.path);
  CHECK(std::filesystem::file_size(disk.path + "/reserve") == reserve_bytes);
  disk.fill();
  uint64_t stored = 0;
  absl::Status status = absl::OkStatus();
  constexpr uint64_t many = 100'000;
  while (stored < many) {
    Revision r = revision(stored + 1, 1);
    r.line.pop_back();
    r.line += ",\"filler\":\"" + std::string(4000, 'x') + "\"}";
    status = history->append({r}, start_ms);
    if (!status.ok()) break;
    ++stored;
  }
  CHECK(absl::IsResourceExhausted(status));
  INFO(stored << " revisions of 4 KB found room");
  CHECK(stored > 500);
  CHECK(HistoryReader::open(history->path()).value().list({.limit = 1}).value().matching == stored);
  // Room comes back: what was refused is accepted.
  std::filesystem::remove(disk.path + "/filler");
  CHECK(history->append({revision(stored + 1, 1)}, start_ms).ok());
  REQUIRE(history->maintain(start_ms).ok());
  CHECK(std::filesystem::exists(disk.path + "/reserve"));
  CHECK(HistoryReader::open(history->path()).value().list({.limit = 1}).value().matching == stored + 1);
}

}  // namespace ccld::test
