#include "decision/history/state_folder.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace ccld::decision::history {
namespace {

namespace fs = std::filesystem;

constexpr char database_name[] = "history.db";
constexpr absl::string_view damaged_infix = ".damaged-";
constexpr size_t damaged_max = 3;
constexpr mode_t owner_and_group = 0640;
// The reserve is taken only where as much stays free for others.
constexpr uint64_t reserve_room_factor = 2;

absl::Status failed(const char* what, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(what, " '", path, "': ", std::strerror(errno)));
}

constexpr absl::string_view log_suffix = "-wal", shared_memory_suffix = "-shm", copy_suffix = ".copy";

// Databases that were set aside, oldest first, without their logs.
std::vector<fs::path> damaged_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (absl::StartsWith(name, absl::StrCat(database_name, damaged_infix)) && !absl::EndsWith(name, log_suffix)) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::string default_state_folder() {
  if (geteuid() == 0) return "/var/lib/ccld";
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && state[0] == '/') return absl::StrCat(state, "/ccld");
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return "";
  return absl::StrCat(home, "/.local/state/ccld");
}

std::string database_path(const std::string& folder) { return fs::path(folder) / database_name; }
std::string recordings_path(const std::string& folder) { return fs::path(folder) / "recordings"; }

std::optional<int64_t> holder_of(const std::string& folder) {
  const int fd = ::open((fs::path(folder) / "lock").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_fd = [fd] { ::close(fd); };
  if (flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK) return std::nullopt;
  char text[32] = {};
  int64_t pid = 0;
  const ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
  if (n <= 0 || !absl::SimpleAtoi(text, &pid)) return 0;  // it has not written its number yet
  return pid;
}

absl::StatusOr<StateFolder> StateFolder::open(const std::string& path) {
  std::error_code error;
  const bool made = fs::create_directories(path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make the folder '", path, "': ", error.message()));
  if (made) fs::permissions(path, fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec, error);
  const std::string lock = fs::path(path) / "lock";
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, owner_and_group);
  if (fd < 0) return failed("cannot write to", lock);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    const bool held = errno == EWOULDBLOCK;
    const absl::Status status = failed("cannot lock", lock);
    ::close(fd);
    if (!held) return status;
    const auto pid = holder_of(path);
    return absl::UnavailableError(absl::StrCat("'", path, "' is in use by another service",
                                               pid.value_or(0) > 0 ? absl::StrCat(" (process ", *pid, ")") : ""));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  // Only for people and for the other service's line; on a full disk it is missing.
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) < 0) errno = 0;
  return StateFolder(path, fd);
}

StateFolder::~StateFolder() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

bool StateFolder::is_replaced() const {
  struct stat ours {
  }, named{};
  if (fstat(lock_fd_, &ours) != 0 || stat((fs::path(path_) / "lock").c_str(), &named) != 0) return false;
  return ours.st_dev != named.st_dev || ours.st_ino != named.st_ino;
}

bool StateFolder::is_deleted() const {
  struct stat lock {};
  return fstat(lock_fd_, &lock) == 0 && lock.st_nlink == 0;
}

void StateFolder::keep_reserve() {
  const std::string path = fs::path(path_) / "reserve";
  std::error_code error;
  if (fs::exists(path, error)) return;
  const fs::space_info space = fs::space(path_, error);
  if (error || space.available < reserve_bytes * reserve_room_factor) return;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, owner_and_group);
  if (fd < 0) return;
  const bool kept = posix_fallocate(fd, 0, static_cast<off_t>(reserve_bytes)) == 0;
  ::close(fd);
  if (!kept) unlink(path.c_str());
}

bool StateFolder::release_reserve() { return unlink((fs::path(path_) / "reserve").c_str()) == 0; }

absl::StatusOr<std::string> StateFolder::set_aside(int64_t now_ms) {
  const std::string path = database_path(path_);
  const std::string aside =
      absl::StrCat(path, damaged_infix, absl::FormatTime("%Y%m%dT%H%M%E3SZ", absl::FromUnixMillis(now_ms), absl::UTCTimeZone()));
  std::error_code error;
  fs::rename(path, aside, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot rename '", path, "': ", error.message()));
  // The log of the old database would be taken for one of the new.
  fs::rename(absl::StrCat(path, log_suffix), absl::StrCat(aside, log_suffix), error);
  fs::remove(absl::StrCat(path, shared_memory_suffix), error);
  const std::vector<fs::path> damaged = damaged_in(path_);
  for (size_t i = 0; i + damaged_max < damaged.size(); ++i) {
    fs::remove(damaged[i], error);
    fs::remove(absl::StrCat(damaged[i].string(), log_suffix), error);
  }
  return aside;
}

std::string StateFolder::place_for_copy() const {
  const std::string path = absl::StrCat(database_path(path_), copy_suffix);
  std::error_code error;
  fs::remove(path, error);
  return path;
}

absl::Status StateFolder::take_copy() {
  const std::string path = database_path(path_), copy = absl::StrCat(path, copy_suffix);
  // What was stored survives a loss of power, and so does its copy.
  const int fd = ::open(copy.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed("cannot open", copy);
  const absl::Cleanup close_fd = [fd] { ::close(fd); };
  if (fsync(fd) != 0) return failed("cannot write", copy);
  std::error_code error;
  // The log of the deleted database would be taken for one of the copy.
  for (const absl::string_view part : {log_suffix, shared_memory_suffix}) fs::remove(absl::StrCat(path, part), error);
  fs::create_directory(recordings_path(path_), error);
  fs::rename(copy, path, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make '", path, "' again: ", error.message()));
  return absl::OkStatus();
}

}  // namespace ccld::decision::history
