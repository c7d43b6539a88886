#include "decision/recording/recording_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::recording {
namespace {

absl::Status cannot_write(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat("cannot write '", path, "': ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RecordingFile>> RecordingFile::create(const std::string& path, bool replace, const Metadata& metadata,
                                                                     Packer& packer) {
  constexpr mode_t readable_by_group = 0640;  // names of hosts, jobs and communicators
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL), readable_by_group);
  if (fd < 0 && errno == EEXIST) return absl::AlreadyExistsError(absl::StrCat("'", path, "' exists"));
  if (fd < 0) return cannot_write(path, errno);
  std::unique_ptr<RecordingFile> file(new RecordingFile(fd, path));
  const std::string beginning =
      file_header() + packer.pack(json_content(BlockKind::metadata, report::to_line(to_json(metadata))));
  if (absl::Status s = file->write(beginning); !s.ok()) return s;
  return file;
}

RecordingFile::~RecordingFile() { end(); }

void RecordingFile::end() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

absl::Status RecordingFile::write(absl::string_view block) {
  if (fd_ < 0) return cannot_write(path_, EBADF);
  size_t written = 0;
  while (written < block.size()) {
    const ssize_t n = ::write(fd_, block.data() + written, block.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int error = n < 0 ? errno : ENOSPC;
      // Best effort: a torn block reads as a file that is cut off, which it is.
      if (::ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) errno = error;
      end();
      return cannot_write(path_, error);
    }
    written += static_cast<size_t>(n);
  }
  bytes_ += written;
  return absl::OkStatus();
}

absl::Status RecordingFile::close(const Ending& ending, Packer& packer) {
  const absl::Status status = write(packer.pack(json_content(BlockKind::end, report::to_line(to_json(ending)))));
  end();
  return status;
}

absl::StatusOr<uint64_t> parse_bytes(absl::string_view text) {
  const absl::string_view whole = text;
  unsigned shift = 0;
  if (!text.empty()) {
    switch (absl::ascii_toupper(static_cast<unsigned char>(text.back()))) {
      case 'K': shift = 10; break;
      case 'M': shift = 20; break;
      case 'G': shift = 30; break;
      case 'T': shift = 40; break;
    }
    if (shift > 0) text.remove_suffix(1);
  }
  uint64_t value;
  if (!absl::SimpleAtoi(text, &value) || value == 0 || value > (UINT64_MAX >> (shift + 1))) {
    return absl::InvalidArgumentError(absl::StrCat("'", whole, "' is not a number of bytes: 4096, 64M or 1G is expected"));
  }
  return value << shift;
}

}  // namespace ccld::decision::recording
