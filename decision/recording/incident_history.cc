#include "decision/recording/incident_history.h"

#include <algorithm>
#include <utility>

namespace ccld::decision::recording {
namespace {

absl::Status write_shifted(RecordingFile& file, absl::string_view block, Nanoseconds by_ns, Packer& packer) {
  if (by_ns == 0) return file.write(block);
  auto content = unpack(block.substr(block_header_bytes));
  if (!content.ok()) return content.status();
  const auto later = shifted(*std::move(content), by_ns);
  if (!later.ok()) return later.status();
  return file.write(packer.pack(*later));
}

}  // namespace

void IncidentHistory::add(std::string block, Nanoseconds first_ns, Nanoseconds last_ns) {
  const uint64_t bytes = block.size();
  if (!head_full_ && head_bytes_ + bytes <= head_bytes_max_) {
    head_bytes_ += bytes;
    head_.push_back({std::move(block), first_ns, last_ns});
    return;
  }
  head_full_ = true;
  tail_bytes_ += bytes;
  tail_.push_back({std::move(block), first_ns, last_ns});
  while (tail_bytes_ > tail_bytes_max_ && tail_.size() > 1) {
    tail_bytes_ -= tail_.front().bytes.size();
    tail_.pop_front();
    forgot_ = true;
  }
}

absl::Status IncidentHistory::write(RecordingFile& file, LastWords words, Packer& packer) const {
  const Nanoseconds tail_ns = tail_.empty() ? 0 : tail_.front().first_ns;
  const Nanoseconds shift_ns = forgot_ && !head_.empty() ? tail_ns - head_.back().last_ns : 0;
  for (const Block& block : head_) {
    if (absl::Status s = write_shifted(file, block.bytes, shift_ns, packer); !s.ok()) return s;
  }
  if (forgot_) {
    std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a->clock_ns < b->clock_ns; });
    BlockBuilder builder;
    const auto flush = [&] { return builder.empty() ? absl::OkStatus() : file.write(packer.pack(builder.take())); };
    for (const auto& word : words) {
      if (word->clock_ns >= tail_ns) continue;  // the tail has it
      if (builder.bytes() >= block_content_bytes_wanted) {
        if (absl::Status s = flush(); !s.ok()) return s;
      }
      const auto* bytes = reinterpret_cast<const uint8_t*>(word->bytes.data());
      builder.add({.kind = EntryKind::message, .clock_ns = tail_ns, .realtime_ns = word->realtime_ns + (tail_ns - word->clock_ns),
                   .message = absl::MakeConstSpan(bytes, word->bytes.size())});
    }
    if (absl::Status s = flush(); !s.ok()) return s;
  }
  for (const Block& block : tail_) {
    if (absl::Status s = file.write(block.bytes); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace ccld::decision::recording
