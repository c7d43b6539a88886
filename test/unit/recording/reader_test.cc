#include "decision/recording/reader.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

// Three blocks of entries between metadata and end.
struct Sample {
  Sample() {
    const std::string a = "first", b = "second", c = std::string(300, 'z');
    blocks = {beginning({.source = "service", .version = "1", .host = "h"}), block_of({message_at(start_ns, a), tick_at(start_ns + 1)}),
              block_of({message_at(start_ns + 2, b)}), block_of({tick_at(start_ns + 3), message_at(start_ns + 3, c)}), ending()};
    for (const std::string& block : blocks) {
      bytes += block;
      ends.push_back(bytes.size());
    }
  }
  std::vector<std::string> blocks;
  std::vector<size_t> ends;
  std::string bytes;
};

constexpr size_t entries_up_to[] = {0, 2, 3, 5, 5};  // with so many blocks

}  // namespace

TEST_CASE("A recording is read back as it was written") {
  const Sample sample;
  const Reading r = read_bytes(sample.bytes);
  CHECK(r.status.ok());
  CHECK(r.closed);
  CHECK(r.warning.empty());
  CHECK(r.metadata.host == "h");
  REQUIRE(r.entries.size() == 5);
  CHECK(r.entries[0].message == "first");
  CHECK(r.entries[2].message == "second");
  CHECK(r.entries[4].message == std::string(300, 'z'));
  CHECK(r.entries[4].realtime_ns == start_ns + 3 + calendar_ns);
}

TEST_CASE("A file that was cut off anywhere reads up to its last whole block, and says what is missing") {
  const Sample sample;
  for (size_t size = 0; size < sample.bytes.size(); ++size) {
    INFO("cut after " << size << " bytes");
    const Reading r = read_bytes(sample.bytes.substr(0, size));
    if (size < sample.ends[0]) {
      CHECK_FALSE(r.status.ok());  // nothing to go by
      CHECK(contains(r.status.message(), "'f.rec'"));
      continue;
    }
    size_t whole = 0;
    while (whole + 1 < sample.ends.size() && sample.ends[whole + 1] <= size) ++whole;
    CHECK(r.status.ok());
    CHECK(r.entries.size() == entries_up_to[whole]);
    CHECK_FALSE(r.closed);
    CHECK(contains(r.warning, "'f.rec' is cut off"));
    CHECK(contains(r.warning, "offset " + std::to_string(sample.ends[whole])));
  }
}

TEST_CASE("A flipped bit anywhere is found or changes nothing, and what came before it is still read") {
  const Sample sample;
  const Reading good = read_bytes(sample.bytes);
  size_t unnoticed = 0;
  for (size_t at = 0; at < sample.bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      INFO("byte " << at << ", bit " << bit);
      std::string bytes = sample.bytes;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << bit));
      const Reading r = read_bytes(bytes);
      size_t damaged = 0;
      while (sample.ends[damaged] <= at) ++damaged;
      if (r.status.ok()) {  // a bit of a frame that means nothing to zstd
        ++unnoticed;
        REQUIRE(r.entries.size() == good.entries.size());
        for (size_t i = 0; i < good.entries.size(); ++i) {
          CHECK(r.entries[i].message == good.entries[i].message);
          CHECK(r.entries[i].clock_ns == good.entries[i].clock_ns);
          CHECK(r.entries[i].realtime_ns == good.entries[i].realtime_ns);
        }
        CHECK(to_json(r.metadata) == to_json(good.metadata));
        continue;
      }
      CHECK(contains(r.status.message(), "'f.rec', offset "));
      if (damaged > 0) CHECK(r.entries.size() == entries_up_to[damaged - 1]);
    }
  }
  CHECK(unnoticed < sample.bytes.size() / 4);
}

TEST_CASE("What is no recording, and a recording of a newer version, are told apart") {
  CHECK(contains(read_bytes("").status.message(), "not a recording"));
  CHECK(contains(read_bytes("{\"incident\":1}").status.message(), "'f.rec', offset 0: this is not a recording of ccld"));
  CHECK(contains(read_bytes(file_header().substr(0, 11)).status.message(), "ends within its header"));
  std::string newer = Sample().bytes;
  newer[8] = 2;
  newer[12] = static_cast<char>(~2);
  CHECK(contains(read_bytes(newer).status.message(), "format version 2, this ccld reads up to 1"));
}

TEST_CASE("Blocks in an order that cannot be are refused") {
  const Sample s;
  const std::string tick = block_of({tick_at(start_ns)}), earlier = block_of({tick_at(start_ns - 1)});
  CHECK(contains(read_bytes(file_header() + tick).status.message(), "the first block is not the metadata"));
  CHECK(contains(read_bytes(s.blocks[0] + tick + s.blocks[0].substr(file_header_bytes)).status.message(), "a second block of metadata"));
  CHECK(contains(read_bytes(s.blocks[0] + tick + earlier).status.message(), "the clock goes back"));
  CHECK(contains(read_bytes(s.bytes + tick).status.message(), "something follows the end"));
  CHECK(contains(read_bytes(s.blocks[0] + Packer().pack("\x09junk")).status.message(), "unknown kind 9"));
  CHECK(contains(read_bytes(s.blocks[0] + Packer().pack("")).status.message(), "a block is empty"));
}

TEST_CASE("A size that no file of this length can hold costs no memory") {
  std::string huge = Sample().blocks[0] + "CBLK";
  const uint32_t bytes = block_frame_bytes_max - 1;
  for (const uint32_t word : {bytes, ~bytes}) {
    for (unsigned shift = 0; shift < 32; shift += 8) huge += static_cast<char>(word >> shift);
  }
  const Reading r = read_bytes(huge + "abc");
  CHECK(r.status.ok());
  CHECK(contains(r.warning, "cut off within the block"));
}

TEST_CASE("A file that is not there and a folder are one line each") {
  CHECK(contains(Reader::open("/nowhere/x.rec").status().message(), "cannot read '/nowhere/x.rec': No such file"));
  CHECK(contains(Reader::open("/tmp").status().message(), "cannot read '/tmp': Is a directory"));
}

}  // namespace ccld::test
