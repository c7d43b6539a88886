#include "decision/recording/reader.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision::recording {

absl::StatusOr<Reader> Reader::open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return absl::UnavailableError(absl::StrCat("cannot read '", path, "': ", std::strerror(errno)));
  struct stat info {};
  if (fstat(fileno(file), &info) == 0 && S_ISDIR(info.st_mode)) {
    std::fclose(file);
    return absl::UnavailableError(absl::StrCat("cannot read '", path, "': ", std::strerror(EISDIR)));
  }
  return of(file, path);
}

absl::StatusOr<Reader> Reader::of(std::FILE* file, const std::string& path) {
  Reader reader(file, path);
  if (absl::Status s = reader.begin(); !s.ok()) return s;
  return reader;
}

absl::Status Reader::at(uint64_t offset, const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat("'", path_, "', offset ", offset, ": ", status.message()));
}

absl::StatusOr<std::string> Reader::read_up_to(size_t bytes) {
  // In steps: the claim of a size is no reason to allocate it before the file has shown that much.
  constexpr size_t step_bytes = size_t{1} << 20;
  std::string text;
  while (text.size() < bytes) {
    const size_t have = text.size(), step = std::min(step_bytes, bytes - have);
    text.resize(have + step);
    const size_t got = std::fread(text.data() + have, 1, step, file_.get());
    text.resize(have + got);
    if (got == step) continue;
    if (std::ferror(file_.get()) != 0) {
      return absl::UnavailableError(absl::StrCat("cannot read '", path_, "', offset ", offset_ + text.size(), ": ", std::strerror(errno)));
    }
    break;
  }
  return text;
}

absl::Status Reader::begin() {
  const auto header = read_up_to(file_header_bytes);
  if (!header.ok()) return header.status();
  if (absl::Status s = check_file_header(*header); !s.ok()) return at(0, s);
  offset_ = file_header_bytes;
  const auto found = read_block();
  if (!found.ok()) return found.status();
  if (!*found) return at(offset_, absl::DataLossError("the file ends before its metadata"));
  const auto kind = kind_of(content_);
  if (!kind.ok()) return at(block_offset_, kind.status());
  if (*kind != BlockKind::metadata) return at(block_offset_, absl::DataLossError("the first block is not the metadata"));
  auto metadata = parse_metadata(absl::string_view(content_).substr(1));
  if (!metadata.ok()) return at(block_offset_, metadata.status());
  metadata_ = *std::move(metadata);
  return absl::OkStatus();
}

bool Reader::cut_off(const std::string& where) {
  over_ = true;
  warning_ = absl::StrCat("'", path_, "' is cut off ", where, ": what was recorded after that is missing");
  return false;
}

absl::StatusOr<bool> Reader::read_block() {
  const auto header = read_up_to(block_header_bytes);
  if (!header.ok()) return header.status();
  if (header->empty()) return cut_off(absl::StrCat("after offset ", offset_, " (never closed, or still being written)"));
  if (header->size() < block_header_bytes) return cut_off(absl::StrCat("within the block at offset ", offset_));
  const auto frame_bytes = frame_bytes_of(*header);
  if (!frame_bytes.ok()) return at(offset_, frame_bytes.status());
  const auto frame = read_up_to(*frame_bytes);
  if (!frame.ok()) return frame.status();
  if (frame->size() < *frame_bytes) return cut_off(absl::StrCat("within the block at offset ", offset_));
  auto content = unpack(*frame);
  if (!content.ok()) return at(offset_, content.status());
  content_ = *std::move(content);
  block_offset_ = offset_;
  offset_ += block_header_bytes + *frame_bytes;
  return true;
}

absl::StatusOr<bool> Reader::next(Entry& entry) {
  while (!over_) {
    if (entries_.has_value()) {
      const auto found = entries_->next(entry);
      if (!found.ok()) return at(block_offset_, found.status());
      if (*found && entry.clock_ns < clock_ns_) return at(block_offset_, absl::DataLossError("the clock goes back"));
      if (*found) {
        clock_ns_ = entry.clock_ns;
        return true;
      }
      entries_.reset();
    }
    const auto found = read_block();
    if (!found.ok()) return found.status();
    if (!*found) return false;
    const auto kind = kind_of(content_);
    if (!kind.ok()) return at(block_offset_, kind.status());
    if (*kind == BlockKind::metadata) return at(block_offset_, absl::DataLossError("a second block of metadata"));
    if (*kind == BlockKind::entries) {
      auto entries = BlockEntries::open(content_);
      if (!entries.ok()) return at(block_offset_, entries.status());
      entries_ = *entries;
      continue;
    }
    auto ending = parse_ending(absl::string_view(content_).substr(1));
    if (!ending.ok()) return at(block_offset_, ending.status());
    ending_ = *std::move(ending);
    over_ = true;
    if (std::fgetc(file_.get()) != EOF) return at(offset_, absl::DataLossError("something follows the end of the recording"));
  }
  return false;
}

}  // namespace ccld::decision::recording
