#include "decision/recording/block.h"

#include <zstd.h>

#include <new>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace ccld::decision::recording {
namespace {

// The fastest level of the regular kind: telemetry shrinks to a tenth, and a higher level buys a few per cent for twice the time.
constexpr int compression_level = 1;
constexpr size_t entries_header_bytes = 1 + 2 * sizeof(int64_t);

void put_u32(std::string& out, uint32_t v) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(v >> shift);
}

void put_u64(std::string& out, uint64_t v) {
  for (unsigned shift = 0; shift < 64; shift += 8) out += static_cast<char>(v >> shift);
}

uint64_t get_little(const uint8_t* at, size_t bytes) {
  uint64_t v = 0;
  for (size_t i = 0; i < bytes; ++i) v |= uint64_t{at[i]} << (8 * i);
  return v;
}

uint32_t get_u32(absl::string_view text, size_t at) {
  return static_cast<uint32_t>(get_little(reinterpret_cast<const uint8_t*>(text.data()) + at, sizeof(uint32_t)));
}

void put_varint(std::string& out, uint64_t v) {
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  out += static_cast<char>(v);
}

bool get_varint(const uint8_t*& at, const uint8_t* end, uint64_t& v) {
  v = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at == end) return false;
    const uint8_t byte = *at++;
    if (shift == 63 && byte > 1) return false;
    v |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

uint64_t zigzag(int64_t v) { return (static_cast<uint64_t>(v) << 1) ^ static_cast<uint64_t>(v >> 63); }
int64_t unzigzag(uint64_t v) { return static_cast<int64_t>(v >> 1) ^ -static_cast<int64_t>(v & 1); }

// Half of the range, so that sums and differences of instants fit.
bool plausible(int64_t ns) {
  constexpr auto limit = static_cast<int64_t>(ingest::time_ns_max);
  return ns >= -limit && ns <= limit;
}

absl::Status damaged(absl::string_view what) { return absl::DataLossError(what); }

}  // namespace

void BlockBuilder::add(const Entry& e) {
  const int64_t offset_ns = e.realtime_ns - e.clock_ns;
  if (entries_++ == 0) {
    content_ += static_cast<char>(BlockKind::entries);
    put_u64(content_, static_cast<uint64_t>(e.clock_ns));
    put_u64(content_, static_cast<uint64_t>(offset_ns));
    first_ns_ = clock_ns_ = e.clock_ns;
    offset_ns_ = offset_ns;
  }
  content_ += static_cast<char>(e.kind);
  put_varint(content_, static_cast<uint64_t>(e.clock_ns - clock_ns_));
  put_varint(content_, zigzag(offset_ns - offset_ns_));
  clock_ns_ = e.clock_ns;
  offset_ns_ = offset_ns;
  if (e.kind == EntryKind::message) {
    put_varint(content_, e.message.size());
    content_.append(reinterpret_cast<const char*>(e.message.data()), e.message.size());
  } else if (e.kind == EntryKind::gap) {
    put_varint(content_, e.missing);
  }
}

bool BlockBuilder::due(Nanoseconds now_ns) const {
  return entries_ > 0 && (content_.size() >= block_content_bytes_wanted || now_ns - first_ns_ >= block_age_ns_max);
}

std::string BlockBuilder::take(std::string spare) {
  entries_ = 0;
  spare.clear();
  spare.swap(content_);
  return spare;
}

absl::StatusOr<BlockEntries> BlockEntries::open(absl::string_view content) {
  if (content.size() < entries_header_bytes) return damaged("a block of entries ends within its header");
  BlockEntries result;
  const auto* bytes = reinterpret_cast<const uint8_t*>(content.data());
  result.clock_ns_ = static_cast<int64_t>(get_little(bytes + 1, sizeof(int64_t)));
  result.offset_ns_ = static_cast<int64_t>(get_little(bytes + 1 + sizeof(int64_t), sizeof(int64_t)));
  if (result.clock_ns_ < 0 || !plausible(result.clock_ns_) || !plausible(result.offset_ns_)) return damaged("an instant is out of range");
  result.at_ = bytes + entries_header_bytes;
  result.end_ = bytes + content.size();
  return result;
}

absl::StatusOr<bool> BlockEntries::next(Entry& e) {
  if (at_ == end_) return false;
  const auto kind = static_cast<EntryKind>(*at_++);
  uint64_t since_ns, change, size = 0;
  if (!get_varint(at_, end_, since_ns) || !get_varint(at_, end_, change)) return damaged("an entry ends within its instants");
  if (since_ns > ingest::time_ns_max || !plausible(unzigzag(change))) return damaged("an instant is out of range");
  clock_ns_ += static_cast<Nanoseconds>(since_ns);
  offset_ns_ += unzigzag(change);
  if (!plausible(clock_ns_) || !plausible(offset_ns_)) return damaged("an instant is out of range");
  e = {.kind = kind, .clock_ns = clock_ns_, .realtime_ns = clock_ns_ + offset_ns_};
  switch (kind) {
    case EntryKind::tick:
    case EntryKind::multipart: return true;
    case EntryKind::gap:
      if (!get_varint(at_, end_, e.missing)) return damaged("a gap ends within its count");
      return true;
    case EntryKind::message:
      if (!get_varint(at_, end_, size) || size > static_cast<uint64_t>(end_ - at_)) return damaged("a message is longer than its block");
      e.message = absl::MakeConstSpan(at_, size);
      at_ += size;
      return true;
  }
  return damaged(absl::StrCat("an entry is of unknown kind ", static_cast<unsigned>(kind)));
}

std::string json_content(BlockKind kind, absl::string_view json) {
  std::string content(1, static_cast<char>(kind));
  content.append(json.data(), json.size());
  return content;
}

absl::StatusOr<BlockKind> kind_of(absl::string_view content) {
  if (content.empty()) return damaged("a block is empty");
  const auto kind = static_cast<BlockKind>(content[0]);
  if (kind < BlockKind::metadata || kind > BlockKind::end) {
    return damaged(absl::StrCat("a block is of unknown kind ", static_cast<unsigned>(kind)));
  }
  return kind;
}

absl::StatusOr<std::string> shifted(std::string content, Nanoseconds by_ns) {
  const auto entries = BlockEntries::open(content);
  if (!entries.ok()) return entries.status();
  std::string clock;
  put_u64(clock, static_cast<uint64_t>(entries->first_clock_ns() + by_ns));
  content.replace(1, clock.size(), clock);
  return content;
}

struct Packer::Context {
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  ~Context() { ZSTD_freeCCtx(zstd); }
};

Packer::Packer() : context_(std::make_unique<Context>()) {
  if (context_->zstd == nullptr) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_->zstd, ZSTD_c_compressionLevel, compression_level);
  ZSTD_CCtx_setParameter(context_->zstd, ZSTD_c_checksumFlag, 1);
}

Packer::~Packer() = default;

std::string Packer::pack(absl::string_view content) {
  std::string block(block_header_bytes + ZSTD_compressBound(content.size()), '\0');
  const size_t frame_bytes = ZSTD_compress2(context_->zstd, block.data() + block_header_bytes, block.size() - block_header_bytes,
                                            content.data(), content.size());
  if (ZSTD_isError(frame_bytes)) throw std::bad_alloc();  // with room for the worst case there is no other reason
  block.resize(block_header_bytes + frame_bytes);
  std::string header(block_magic);
  put_u32(header, static_cast<uint32_t>(frame_bytes));
  put_u32(header, ~static_cast<uint32_t>(frame_bytes));
  block.replace(0, header.size(), header);
  return block;
}

absl::StatusOr<uint32_t> frame_bytes_of(absl::string_view header) {
  if (header.size() != block_header_bytes || !absl::StartsWith(header, block_magic)) return damaged("no block begins here");
  const uint32_t bytes = get_u32(header, 4);
  if (get_u32(header, 8) != static_cast<uint32_t>(~bytes)) return damaged("the size of a block is damaged");
  if (bytes > block_frame_bytes_max) return damaged(absl::StrCat("a block claims ", bytes, " bytes, at most ", block_frame_bytes_max, " are possible"));
  return bytes;
}

absl::StatusOr<std::string> unpack(absl::string_view frame) {
  const unsigned long long content_bytes = ZSTD_getFrameContentSize(frame.data(), frame.size());
  if (content_bytes == ZSTD_CONTENTSIZE_ERROR || content_bytes == ZSTD_CONTENTSIZE_UNKNOWN) return damaged("a block is damaged");
  if (content_bytes > block_content_bytes_max) {
    return damaged(absl::StrCat("a block claims ", content_bytes, " bytes of content, at most ", block_content_bytes_max, " are possible"));
  }
  std::string content(content_bytes, '\0');
  const size_t got = ZSTD_decompress(content.data(), content.size(), frame.data(), frame.size());
  if (ZSTD_isError(got)) return damaged(absl::StrCat("a block is damaged (", ZSTD_getErrorName(got), ")"));
  if (got != content.size()) return damaged("a block is damaged (it is shorter than it claims)");
  return content;
}

std::string file_header() {
  std::string header(file_magic);
  put_u32(header, format_version);
  put_u32(header, ~format_version);
  return header;
}

absl::Status check_file_header(absl::string_view header) {
  if (!absl::StartsWith(header, file_magic.substr(0, std::min(header.size(), file_magic.size()))) || header.empty()) {
    return damaged("this is not a recording of ccld");
  }
  if (header.size() != file_header_bytes) return damaged("the file ends within its header");
  const uint32_t version = get_u32(header, 8);
  if (get_u32(header, 12) != static_cast<uint32_t>(~version)) return damaged("the header is damaged");
  if (version == 0) return damaged("the header is damaged");
  if (version > format_version) {
    return damaged(absl::StrCat("the recording has format version ", version, ", this ccld reads up to ", format_version, "; use a newer one"));
  }
  return absl::OkStatus();
}

}  // namespace ccld::decision::recording
