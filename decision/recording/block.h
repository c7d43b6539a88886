// Blocks of a recording, in memory: building their content, packing it into a zstd frame, and the way back.
// Contract: decoding trusts nothing; sizes are bounded by format.h before anything is allocated.
// Errors: the status says what is wrong with the block, not where it is. Threads: one per object.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "decision/recording/format.h"

namespace ccld::decision::recording {

// Collects the entries of one block.
class BlockBuilder {
 public:
  void add(const Entry&);
  bool empty() const { return entries_ == 0; }
  size_t bytes() const { return content_.size(); }
  Nanoseconds first_ns() const { return first_ns_; }
  // To be closed now: it is large enough, or its first entry waits for too long.
  bool due(Nanoseconds now_ns) const;
  // The content; the builder starts anew, in the memory of `spare`.
  std::string take(std::string spare = {});

 private:
  std::string content_;
  uint64_t entries_ = 0;
  Nanoseconds first_ns_ = 0, clock_ns_ = 0;
  int64_t offset_ns_ = 0;
};

// Walks through the entries of a block's content, which must outlive it.
class BlockEntries {
 public:
  static absl::StatusOr<BlockEntries> open(absl::string_view content);
  Nanoseconds first_clock_ns() const { return clock_ns_; }
  // False: no more.
  absl::StatusOr<bool> next(Entry&);

 private:
  const uint8_t* at_ = nullptr;
  const uint8_t* end_ = nullptr;
  Nanoseconds clock_ns_ = 0;
  int64_t offset_ns_ = 0;
};

std::string json_content(BlockKind, absl::string_view json);
// The kind of a content; nothing if there is none of this version.
absl::StatusOr<BlockKind> kind_of(absl::string_view content);
// All instants later by so much, the calendar too.
absl::StatusOr<std::string> shifted(std::string content, Nanoseconds by_ns);

// Content to a whole block: header and frame.
class Packer {
 public:
  Packer();
  ~Packer();
  std::string pack(absl::string_view content);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

// The header of a block to the size of its frame. Errors: not a header, or a size out of range.
absl::StatusOr<uint32_t> frame_bytes_of(absl::string_view header);
// A frame to its content. Errors: damaged, or too large.
absl::StatusOr<std::string> unpack(absl::string_view frame);

std::string file_header();
// Errors: not a recording, damaged, or of a newer version.
absl::Status check_file_header(absl::string_view header);

}  // namespace ccld::decision::recording
