// A recording, read to its end or to the place where it is damaged; its messages are decoded.
//
// The input is the file. One that does not begin as a recording does is taken as contents of blocks, each behind its
// kind and two bytes of length: they are packed as the recorder does, for no fuzzer finds a checksum.
#include <cstdint>
#include <cstdio>
#include <string>

#include "decision/ingest/batch_decoder.h"
#include "decision/recording/block.h"
#include "decision/recording/reader.h"
#include "test/fuzz/bytes.h"
#include "test/fuzz/require.h"

namespace ccld::decision::recording {
namespace {

std::string packed(fuzz::ByteReader bytes) {
  std::string file = file_header();
  Packer packer;
  while (!bytes.empty()) {
    const size_t length = bytes.number<uint16_t>();
    const auto content = bytes.text(length);
    file += packer.pack({content.data(), content.size()});
  }
  return file;
}

void read(std::string file) {
  if (file.empty()) return;
  std::FILE* const stream = fmemopen(file.data(), file.size(), "r");
  auto reader = Reader::of(stream, "input");
  if (!reader.ok()) {
    FUZZ_REQUIRE(!reader.status().message().empty());
    return;
  }
  Nanoseconds clock_ns = INT64_MIN;
  for (Entry entry;;) {
    const auto more = reader->next(entry);
    if (!more.ok() || !*more) break;
    FUZZ_REQUIRE(entry.clock_ns >= clock_ns);
    clock_ns = entry.clock_ns;
    if (entry.kind == EntryKind::message) (void)ingest::decode_batch(entry.message);
  }
}

}  // namespace
}  // namespace ccld::decision::recording

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ccld::decision::recording;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool is_file = text.compare(0, file_magic.size(), file_magic.data(), file_magic.size()) == 0;
  read(is_file ? text : packed({data, size}));
  return 0;
}
