#include "decision/server/verdict_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace ccld::decision::server {

namespace {

// Whether an earlier run was ended within a line.
bool ends_within_line(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return false;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char last = '\n';
  const bool read = fd >= 0 && pread(fd, &last, 1, info.st_size - 1) == 1;
  if (fd >= 0) ::close(fd);
  return read && last != '\n';
}

}  // namespace

absl::StatusOr<VerdictWriter> VerdictWriter::open(const std::string& path) { return open(path, 0); }
absl::StatusOr<VerdictWriter> VerdictWriter::create(const std::string& path) { return open(path, O_TRUNC); }

absl::StatusOr<VerdictWriter> VerdictWriter::open(const std::string& path, int flags) {
  if (path == "-") return VerdictWriter(STDOUT_FILENO, "standard output", false);
  constexpr mode_t readable_by_all = 0644;
  const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | flags, readable_by_all);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot write to '", path, "': ", std::strerror(errno)));
  VerdictWriter writer(fd, path, true);
  writer.torn_ = ends_within_line(path);
  return writer;
}

VerdictWriter::VerdictWriter(VerdictWriter&& other) noexcept
    : fd_(other.fd_),
      path_(std::move(other.path_)),
      owned_(std::exchange(other.owned_, false)),
      torn_(other.torn_),
      stuck_(other.stuck_),
      refused_(other.refused_),
      lines_(other.lines_),
      errors_(other.errors_) {}

VerdictWriter::~VerdictWriter() {
  if (owned_) ::close(fd_);
}

void VerdictWriter::follow_path() {
  struct stat ours {
  }, named{};
  // Nobody rotates a pipe or a terminal, and to open one can take for ever.
  if (!owned_ || fstat(fd_, &ours) != 0 || !S_ISREG(ours.st_mode)) return;
  if (ours.st_size == 0) torn_ = false;  // truncated, so nothing is torn
  const bool same = stat(path_.c_str(), &named) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
  const absl::Status status = same ? absl::OkStatus() : open_anew(ours.st_mode);
  if (status.ok()) {
    stuck_ = false;
    return;
  }
  ++errors_;
  if (!std::exchange(stuck_, true)) {
    spdlog::error("verdicts go on into the file that was {}: {}; further failures are only counted", path_,
                  std::string(status.message()));
  }
}

absl::Status VerdictWriter::open_anew(mode_t mode) {
  constexpr mode_t permissions = 0777;  // the new file is for whom the old one was
  // O_NONBLOCK means nothing to a regular file; a FIFO without a reader would hold us up.
  const int fd =
      ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode & permissions);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot open it again: ", std::strerror(errno)));
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return absl::UnavailableError("what has its name now is no regular file");
  }
  ::close(std::exchange(fd_, fd));
  torn_ = ends_within_line(path_);
  spdlog::info("verdicts: {} was renamed or removed, and is opened again", path_);
  return absl::OkStatus();
}

void VerdictWriter::write_line(absl::string_view line) {
  follow_path();
  // After a torn line (disk full) the next one starts on a line of its own.
  const std::string text = absl::StrCat(torn_ ? "\n" : "", line, "\n");
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(fd_, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (written > 0) torn_ = true;
      ++errors_;
      if (!std::exchange(refused_, true)) {
        spdlog::error("verdicts cannot be written to {}: {}; further failures are only counted", path_, std::strerror(errno));
      }
      return;
    }
    written += static_cast<size_t>(n);
  }
  torn_ = false;
  ++lines_;
}

}  // namespace ccld::decision::server
