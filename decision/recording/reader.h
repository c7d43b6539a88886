// Reads a recording entry by entry, whatever the file holds.
//
// Contract
//   Memory is one block. next() gives the entries in order; their clock never goes back.
//   A file that is cut off (crash, full disk, still being written) ends at its last whole block: next() says false, and
//   warning() says what is missing. Damage is an error at the place where it is met; what came before was good.
// Errors: one line with the file, the offset and what is wrong. Threads: one.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "decision/recording/block.h"
#include "decision/recording/metadata.h"

namespace ccld::decision::recording {

class Reader {
 public:
  static absl::StatusOr<Reader> open(const std::string& path);
  // `file` is closed by the reader; `path` is its name in errors.
  static absl::StatusOr<Reader> of(std::FILE* file, const std::string& path);

  const Metadata& metadata() const { return metadata_; }
  // False: the end. The entry's message is valid until the next call.
  absl::StatusOr<bool> next(Entry&);

  // After the end: how it ended, unless the file is cut off; then there is a warning.
  const std::optional<Ending>& ending() const { return ending_; }
  const std::string& warning() const { return warning_; }
  uint64_t offset() const { return offset_; }  // behind the newest whole block

 private:
  Reader(std::FILE* file, std::string path) : file_(file, &std::fclose), path_(std::move(path)) {}

  absl::Status begin();
  // The next block's content into content_; false at the end of the file.
  absl::StatusOr<bool> read_block();
  absl::StatusOr<std::string> read_up_to(size_t bytes);
  absl::Status at(uint64_t offset, const absl::Status&) const;
  bool cut_off(const std::string& where);

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string path_;
  Metadata metadata_;
  std::string content_;
  std::optional<BlockEntries> entries_;
  std::optional<Ending> ending_;
  std::string warning_;
  uint64_t offset_ = 0, block_offset_ = 0;  // block_offset_: where the block of content_ begins
  Nanoseconds clock_ns_ = 0;
  bool over_ = false;
};

}  // namespace ccld::decision::recording
