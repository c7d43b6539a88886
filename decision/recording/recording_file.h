// A recording being written: whole blocks or nothing.
//
// Contract
//   The header and the metadata are on disk when create() returns. A write that fails takes the file back to its last
//   whole block and ends it. Without close() the file reads as cut off.
// Errors: one line with the path and the reason; create(): InvalidArgument if the file exists and may not be replaced.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "decision/recording/block.h"
#include "decision/recording/metadata.h"

namespace ccld::decision::recording {

class RecordingFile {
 public:
  static absl::StatusOr<std::unique_ptr<RecordingFile>> create(const std::string& path, bool replace, const Metadata&, Packer&);
  ~RecordingFile();
  RecordingFile(const RecordingFile&) = delete;

  absl::Status write(absl::string_view block);
  absl::Status close(const Ending&, Packer&);

  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  RecordingFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  void end();

  int fd_;
  std::string path_;
  uint64_t bytes_ = 0;  // up to the last whole block
};

// "64M": bytes, with K, M, G or T for powers of 1024. Errors: InvalidArgument, the text and what is expected.
absl::StatusOr<uint64_t> parse_bytes(absl::string_view text);

}  // namespace ccld::decision::recording
