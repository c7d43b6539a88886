// The recording format: everything that reached the service, with the instants of arrival and of its ticks, so that a
// replay makes exactly the calls that the live run made.
//
//   file   = "\x89CCLDREC", u32 version, u32 ~version, block*
//   block  = "CBLK", u32 frame bytes, u32 ~frame bytes, one zstd frame with content size and content checksum
//   content of a frame = u8 BlockKind, then
//     metadata  JSON (metadata.h); the first block
//     entries   i64 clock, i64 realtime minus clock, entry*
//     end       JSON (Ending); the last block of a recording that was closed
//   entry  = u8 EntryKind, varint clock since the entry before (the first: since the block's), zigzag varint change of
//            realtime minus clock, then
//     message   varint size, bytes as received
//     tick, multipart: nothing;  gap: varint entries that are missing here
//
// Contract
//   Numbers are little-endian, instants nanoseconds of the service's monotonic clock, which never goes back within a
//   file. Blocks are decodable one by one: a file that was cut off is good up to its last whole block.
//   Whoever changes the meaning of a byte raises `format_version`; readers refuse newer ones.
// Units: in the names. Errors: none. Threads: any. (Paper, section 4.1: the statistics that the probes report.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "decision/ingest/limits.h"
#include "decision/model/types.h"

namespace ccld::decision::recording {

constexpr absl::string_view file_magic("\x89" "CCLDREC", 8);
constexpr absl::string_view block_magic("CBLK", 4);
constexpr uint32_t format_version = 1;
constexpr size_t file_header_bytes = 16;
constexpr size_t block_header_bytes = 12;

enum class BlockKind : uint8_t { metadata = 1, entries = 2, end = 3 };
enum class EntryKind : uint8_t { message = 1, tick = 2, multipart = 3, gap = 4 };

// A block is closed once it holds so much: what a damaged byte can cost, and what a reader has in memory.
constexpr size_t block_content_bytes_wanted = size_t{1} << 20;
// One message may be as large as the socket lets through; it comes on top of what the block holds already.
constexpr size_t block_content_bytes_max = block_content_bytes_wanted + ingest::message_bytes_max + 64;
// zstd's worst case adds less than one part in 128.
constexpr size_t block_frame_bytes_max = block_content_bytes_max + block_content_bytes_max / 128 + 1024;
constexpr size_t metadata_bytes_max = size_t{64} << 10;
// Entries wait no longer for their block: what a crash of the service can cost.
constexpr Nanoseconds block_age_ns_max = 2 * ns_per_s;

static_assert(block_content_bytes_wanted < block_content_bytes_max);
static_assert(metadata_bytes_max < block_content_bytes_max);
static_assert(block_frame_bytes_max < UINT32_MAX);

struct Entry {
  EntryKind kind = EntryKind::tick;
  Nanoseconds clock_ns = 0;
  int64_t realtime_ns = 0;
  absl::Span<const uint8_t> message;  // valid until the reader goes on
  uint64_t missing = 0;               // of a gap
};

}  // namespace ccld::decision::recording
