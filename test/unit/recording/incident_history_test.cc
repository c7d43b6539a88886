#include "decision/recording/incident_history.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

Nanoseconds second(int n) { return start_ns + n * ns_per_s; }

// A message and a tick per second.
void add_second(IncidentHistory& history, int n, Packer& packer) {
  BlockBuilder builder;
  const std::string text = "second " + std::to_string(n);
  builder.add(message_at(second(n), text));
  builder.add(tick_at(second(n) + 1));
  history.add(packer.pack(builder.take()), second(n), second(n) + 1);
}

Reading written(const IncidentHistory& history, const LastWords& words) {
  const Folder folder;
  Packer packer;
  auto file = RecordingFile::create(folder.file("i"), false, Metadata{}, packer);
  REQUIRE(file.ok());
  REQUIRE(history.write(**file, words, packer).ok());
  REQUIRE((*file)->close({.reason = "incident"}, packer).ok());
  return read_all(Reader::open(folder.file("i")));
}

std::shared_ptr<const KeptMessage> word(int n, const std::string& text) {
  return std::make_shared<const KeptMessage>(KeptMessage{second(n), second(n) + calendar_ns, text});
}

}  // namespace

TEST_CASE("A history that fits is written as it was, without last words") {
  Packer packer;
  IncidentHistory history(200, 1 << 20);
  for (int n = 0; n < 20; ++n) add_second(history, n, packer);
  CHECK(history.whole());
  const Reading r = written(history, {word(3, "second 3")});
  CHECK(r.status.ok());
  REQUIRE(r.entries.size() == 40);
  for (int n = 0; n < 20; ++n) {
    CHECK(r.entries[static_cast<size_t>(2 * n)].message == "second " + std::to_string(n));
    CHECK(r.entries[static_cast<size_t>(2 * n)].clock_ns == second(n));
  }
}

TEST_CASE("What does not fit is forgotten in the middle; the beginning moves up, and silent processes keep their last words") {
  Packer packer;
  IncidentHistory history(300, 300);
  for (int n = 0; n < 1000; ++n) add_second(history, n, packer);
  CHECK_FALSE(history.whole());
  CHECK(history.bytes() <= 600);
  const Reading r = written(history, {word(500, "the last of a silent process"), word(400, "its topology"), word(999, "known from the tail")});
  CHECK(r.status.ok());  // the reader has seen that the clock never goes back
  CHECK(r.entries.front().message == "second 0");
  CHECK(r.entries.back().clock_ns == second(999) + 1);
  size_t at = 0;
  while (at < r.entries.size() && r.entries[at].message != "its topology") ++at;
  REQUIRE(at + 2 < r.entries.size());
  CHECK(r.entries[at + 1].message == "the last of a silent process");
  const Nanoseconds tail_ns = r.entries[at + 2].clock_ns;
  CHECK(tail_ns > second(900));
  CHECK(r.entries[at].clock_ns == tail_ns);
  CHECK(r.entries[at - 1].clock_ns == tail_ns);  // where the beginning ends now
  CHECK(r.entries[at - 1].realtime_ns == tail_ns + calendar_ns);
  for (const Read& e : r.entries) CHECK(e.message != "known from the tail");
}

TEST_CASE("The newest block is kept even if it is larger than the limit") {
  Packer packer;
  IncidentHistory history(1, 1);
  for (int n = 0; n < 3; ++n) add_second(history, n, packer);
  const Reading r = written(history, {});
  REQUIRE(r.entries.size() == 2);
  CHECK(r.entries[0].message == "second 2");
}

}  // namespace ccld::test
