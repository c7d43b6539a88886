// Recordings for tests: small ones, made in memory and in folders of their own.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "decision/recording/block.h"
#include "decision/recording/reader.h"
#include "decision/recording/recording_file.h"
#include "test/support/files/folder.h"
#include "test/unit/server/wire_batch.h"

namespace ccld::test {

using namespace decision;
using namespace decision::recording;

inline absl::Span<const uint8_t> bytes_of(const std::string& text) {
  return absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size());
}

constexpr Nanoseconds start_ns = 1000 * ns_per_s;
constexpr int64_t calendar_ns = 1'700'000'000 * ns_per_s;  // minus the clock

inline Entry message_at(Nanoseconds clock_ns, const std::string& text) {
  return {.kind = EntryKind::message, .clock_ns = clock_ns, .realtime_ns = clock_ns + calendar_ns, .message = bytes_of(text)};
}
inline Entry tick_at(Nanoseconds clock_ns) { return {.kind = EntryKind::tick, .clock_ns = clock_ns, .realtime_ns = clock_ns + calendar_ns}; }

inline std::string block_of(const std::vector<Entry>& entries) {
  BlockBuilder builder;
  for (const Entry& e : entries) builder.add(e);
  return Packer().pack(builder.take());
}

inline std::string beginning(const Metadata& m = {}) {
  return file_header() + Packer().pack(json_content(BlockKind::metadata, report::to_line(to_json(m))));
}
inline std::string ending(const Ending& e = {.reason = "stopped"}) {
  return Packer().pack(json_content(BlockKind::end, report::to_line(to_json(e))));
}

// An entry that owns its bytes.
struct Read {
  EntryKind kind;
  Nanoseconds clock_ns;
  int64_t realtime_ns;
  std::string message;
  uint64_t missing;
};
inline Read owned(const Entry& e) {
  return {e.kind, e.clock_ns, e.realtime_ns, std::string(e.message.begin(), e.message.end()), e.missing};
}

// Everything a reader makes of some bytes.
struct Reading {
  absl::Status status;
  std::vector<Read> entries;
  std::string warning;
  bool closed = false;
  Metadata metadata;
};

inline Reading read_all(absl::StatusOr<Reader> reader) {
  Reading r;
  r.status = reader.status();
  if (!reader.ok()) return r;
  r.metadata = reader->metadata();
  Entry e;
  for (;;) {
    const auto found = reader->next(e);
    r.status = found.status();
    if (!found.ok() || !*found) break;
    r.entries.push_back(owned(e));
  }
  r.warning = reader->warning();
  r.closed = reader->ending().has_value();
  return r;
}

inline Reading read_bytes(std::string bytes) {
  // fmemopen takes no empty buffer.
  std::FILE* file = bytes.empty() ? std::fopen("/dev/null", "rb") : fmemopen(bytes.data(), bytes.size(), "rb");
  return read_all(Reader::of(file, "f.rec"));
}

inline bool contains(absl::string_view text, absl::string_view part) { return text.find(part) != absl::string_view::npos; }

}  // namespace ccld::test
