// Appends verdicts as JSON lines to a file or to standard output, each line with one write, so that a reader that
// follows the file sees whole lines. A line that cannot be written is counted and logged once, the service goes on.
// A regular file that was renamed or removed (log rotation) is left before the next line: the path is opened anew.
// Where that fails, lines go on into the old file, each failure counts as an error, and is logged once until it works
// again. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ccld::decision::server {

class VerdictWriter {
 public:
  // `path`: "-" is standard output. An existing file is appended to. Errors: the path and the reason.
  static absl::StatusOr<VerdictWriter> open(const std::string& path);
  // The same, but an existing file starts anew.
  static absl::StatusOr<VerdictWriter> create(const std::string& path);
  VerdictWriter(VerdictWriter&&) noexcept;
  VerdictWriter& operator=(VerdictWriter&&) = delete;
  ~VerdictWriter();

  void write_line(absl::string_view line);  // without line feed

  uint64_t lines() const { return lines_; }
  uint64_t errors() const { return errors_; }

 private:
  static absl::StatusOr<VerdictWriter> open(const std::string& path, int flags);
  VerdictWriter(int fd, std::string path, bool owned) : fd_(fd), path_(std::move(path)), owned_(owned) {}
  void follow_path();
  absl::Status open_anew(mode_t mode);

  int fd_;
  std::string path_;
  bool owned_;
  bool torn_ = false;  // the last write ended within a line
  bool stuck_ = false;    // the path names another file, which cannot be opened
  bool refused_ = false;  // a line could not be written, which has been said
  uint64_t lines_ = 0, errors_ = 0;
};

}  // namespace ccld::decision::server
