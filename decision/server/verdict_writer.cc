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
    : fd_(other.fd_), path_(std::move(other.path_)), owned_(std::exchange(other.owned_, false)), torn_(other.torn_),
      lines_(other.lines_), errors_(other.errors_) {}

VerdictWriter::~VerdictWriter() {
  if (owned_) ::close(fd_);
}

void VerdictWriter::write_line(absl::string_view line) {
  // After a torn line (disk full) the next one starts on a line of its own.
  const std::string text = absl::StrCat(torn_ ? "\n" : "", line, "\n");
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t n = ::write(fd_, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (written > 0) torn_ = true;
      if (errors_++ == 0) {
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
