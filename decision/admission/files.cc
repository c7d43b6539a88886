#include "decision/admission/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "schemas/keys/curve_key.h"

namespace ccld::decision::admission {
namespace {

absl::Status failure(absl::string_view what, const std::string& path) {
  const std::string text = absl::StrCat("cannot ", what, " '", path, "': ", std::strerror(errno));
  return errno == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
}

absl::Status write_whole(int fd, absl::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("write", path);
    text.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(fd) == 0 ? absl::OkStatus() : failure("write", path);
}

}  // namespace

absl::StatusOr<std::string> read_file(const std::string& path, size_t bytes_max) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return failure("read", path);
  const absl::Cleanup close_file = [fd] { close(fd); };
  struct stat about {};
  if (fstat(fd, &about) != 0) return failure("read", path);
  if (!S_ISREG(about.st_mode)) return absl::UnavailableError(absl::StrCat("cannot read '", path, "': it is no file"));
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failure("read", path);
    if (n == 0) return text;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > bytes_max)
      return absl::UnavailableError(absl::StrCat("'", path, "' is longer than ", bytes_max, " bytes"));
  }
}

absl::StatusOr<std::string> read_file_if_any(const std::string& path) {
  auto text = read_file(path);
  if (absl::IsNotFound(text.status())) return "";
  return text;
}

absl::StatusOr<std::string> read_secret_key(const std::string& path) {
  const auto text = read_file(path, keys::key_file_bytes_max);
  if (!text.ok()) return text.status();
  const keys::FileKey found = keys::key_in(*text);
  if (found.key.empty()) return absl::InvalidArgumentError(absl::StrCat("'", path, "' does not hold one key"));
  if (found.kind == keys::KeyKind::open)
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' holds a public key, the secret one is needed"));
  return std::string(found.key);
}

bool others_can_read(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && (about.st_mode & (S_IROTH | S_IWGRP | S_IWOTH)) != 0;
}

absl::Status create_secret_file(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 && errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat("'", path, "' exists already"));
  if (fd < 0) return failure("write", path);
  const absl::Status status = write_whole(fd, text, path);
  close(fd);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::Status replace_file(const std::string& path, absl::string_view text, unsigned mode) {
  struct stat before {};
  const bool exists = stat(path.c_str(), &before) == 0;
  const std::string temporary = absl::StrCat(path, ".", getpid(), ".tmp");
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  if (fd < 0) return failure("write", path);
  absl::Status status = write_whole(fd, text, path);
  // Whose it was is not always ours to give; then the new one is ours.
  if (exists && (fchmod(fd, before.st_mode & 07777) != 0 || fchown(fd, before.st_uid, before.st_gid) != 0) &&
      errno != EPERM && status.ok())
    status = failure("write", path);
  close(fd);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) status = failure("write", path);
  if (!status.ok()) unlink(temporary.c_str());
  return status;
}

}  // namespace ccld::decision::admission
