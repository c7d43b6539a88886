#include "decision/recording/block.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

std::vector<Read> entries_of(const std::string& content) {
  auto entries = BlockEntries::open(content);
  REQUIRE(entries.ok());
  std::vector<Read> result;
  Entry e;
  for (;;) {
    const auto found = entries->next(e);
    REQUIRE(found.ok());
    if (!*found) return result;
    result.push_back(owned(e));
  }
}

}  // namespace

TEST_CASE("A block gives back every entry with its instants, also where the calendar is set") {
  BlockBuilder builder;
  const std::string text = "hello", empty;
  builder.add(message_at(start_ns, text));
  builder.add(tick_at(start_ns + 5));
  builder.add({.kind = EntryKind::multipart, .clock_ns = start_ns + 5, .realtime_ns = 17});  // the calendar jumped back by decades
  builder.add({.kind = EntryKind::gap, .clock_ns = start_ns + 6, .realtime_ns = 18, .missing = 1234567});
  builder.add(message_at(start_ns + 3600 * ns_per_s, empty));
  CHECK(builder.first_ns() == start_ns);
  const std::string content = builder.take();
  CHECK(builder.empty());
  CHECK(*kind_of(content) == BlockKind::entries);
  const auto entries = entries_of(content);
  REQUIRE(entries.size() == 5);
  CHECK(entries[0].message == "hello");
  CHECK(entries[0].clock_ns == start_ns);
  CHECK(entries[0].realtime_ns == start_ns + calendar_ns);
  CHECK(entries[1].kind == EntryKind::tick);
  CHECK(entries[2].kind == EntryKind::multipart);
  CHECK(entries[2].realtime_ns == 17);
  CHECK(entries[3].missing == 1234567);
  CHECK(entries[4].clock_ns == start_ns + 3600 * ns_per_s);
  CHECK(entries[4].realtime_ns == start_ns + 3600 * ns_per_s + calendar_ns);
  CHECK(entries[4].message.empty());
}

TEST_CASE("A block is due when it is large or its first entry is old") {
  BlockBuilder builder;
  CHECK_FALSE(builder.due(start_ns));
  builder.add(tick_at(start_ns));
  CHECK_FALSE(builder.due(start_ns + block_age_ns_max - 1));
  CHECK(builder.due(start_ns + block_age_ns_max));
  const std::string large(block_content_bytes_wanted, 'x');
  builder.add(message_at(start_ns, large));
  CHECK(builder.due(start_ns));
}

TEST_CASE("The largest message that the socket lets through fits into a block that is nearly full") {
  BlockBuilder builder;
  const std::string nearly(block_content_bytes_wanted - 100, 'x'), largest(ingest::message_bytes_max, 'y');
  builder.add(message_at(start_ns, nearly));
  CHECK_FALSE(builder.due(start_ns));
  builder.add(message_at(start_ns + 1, largest));
  const std::string content = builder.take();
  CHECK(content.size() <= block_content_bytes_max);
  const auto frame = unpack(absl::string_view(Packer().pack(content)).substr(block_header_bytes));
  REQUIRE(frame.ok());
  CHECK(*frame == content);
}

TEST_CASE("Entries that end early, claim too much or are of unknown kind are refused") {
  BlockBuilder builder;
  const std::string text = "hello";
  builder.add(message_at(start_ns, text));
  const std::string whole = builder.take();
  for (size_t size = 1; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    auto entries = BlockEntries::open(part);
    if (!entries.ok()) continue;
    Entry e;
    const auto found = entries->next(e);
    if (found.ok()) CHECK_FALSE(*found);  // an empty block
  }
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t at = 1; at < whole.size(); ++at) {
      std::string wrong = whole;
      wrong[at] = static_cast<char>(byte);
      auto entries = BlockEntries::open(wrong);
      if (!entries.ok()) continue;
      Entry e;
      const auto found = entries->next(e);
      if (!found.ok() || !*found) continue;
      CHECK(e.message.size() <= wrong.size());
      CHECK(e.clock_ns >= 0);
    }
  }
}

TEST_CASE("A block can be moved in time as a whole") {
  BlockBuilder builder;
  const std::string text = "hello";
  builder.add(message_at(start_ns, text));
  builder.add(tick_at(start_ns + 7));
  const auto later = shifted(builder.take(), 50);
  REQUIRE(later.ok());
  const auto entries = entries_of(*later);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].clock_ns == start_ns + 50);
  CHECK(entries[1].clock_ns == start_ns + 57);
  CHECK(entries[1].realtime_ns == start_ns + 57 + calendar_ns);
}

TEST_CASE("A frame that claims more than a block can hold is refused before anything is allocated") {
  Packer packer;
  const std::string content(block_content_bytes_max + 1, 'x');
  const std::string block = packer.pack(content);
  const auto unpacked = unpack(absl::string_view(block).substr(block_header_bytes));
  REQUIRE_FALSE(unpacked.ok());
  CHECK(contains(unpacked.status().message(), "at most"));
}

}  // namespace ccld::test
