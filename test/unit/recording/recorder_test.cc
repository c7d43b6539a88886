#include "decision/recording/recorder.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

std::unique_ptr<Recorder> started(const RecorderOptions& options) {
  auto recorder = Recorder::start(options, Metadata{});
  REQUIRE(recorder.ok());
  return *std::move(recorder);
}

Incident confirmed(uint64_t id) {
  Incident i;
  i.id = id;
  i.fault = FaultClass::h3_hardware;
  i.state = VerdictState::confirmed;
  return i;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("What was recorded is read back in order, with its counts") {
  const Folder folder;
  auto recorder = started({.path = folder.file("r")});
  for (int i = 0; i < 1000; ++i) {
    recorder->message(bytes_of("message " + std::to_string(i)), start_ns + i * ns_per_ms * 10, i);
    if (i % 10 == 0) recorder->tick(start_ns + i * ns_per_ms * 10, i);
  }
  recorder->multipart(start_ns + 20 * ns_per_s, 5);
  recorder->finish();
  recorder->tick(start_ns + 30 * ns_per_s, 5);  // too late
  const report::RecorderCounters c = recorder->counters();
  CHECK(c.entries == 1101);
  CHECK(c.missing == 0);
  CHECK(c.write_errors == 0);
  CHECK_FALSE(c.file_open);
  CHECK(c.file_bytes == content(folder.file("r")).size());
  const Reading r = read_all(Reader::open(folder.file("r")));
  REQUIRE(r.entries.size() == 1101);
  CHECK(r.closed);
  size_t messages = 0;
  for (const Read& e : r.entries) {
    if (e.kind != EntryKind::message) continue;
    CHECK(e.message == "message " + std::to_string(messages));
    ++messages;
  }
  CHECK(messages == 1000);
}

TEST_CASE("A recording that reaches its limit ends there, whole, and nothing else is disturbed") {
  const Folder folder;
  auto recorder = started({.path = folder.file("r"), .file_bytes_max = 20'000});
  // Random bytes do not shrink.
  std::string noise(3000, '\0');
  uint32_t seed = 1;
  for (int i = 0; i < 100; ++i) {
    for (char& c : noise) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
    recorder->message(bytes_of(noise), start_ns + i * ns_per_s * 3, 0);
  }
  recorder->finish();
  CHECK_FALSE(recorder->counters().file_open);
  CHECK(recorder->counters().write_errors == 0);
  CHECK(content(folder.file("r")).size() <= 20'000);
  const Reading r = read_all(Reader::open(folder.file("r")));
  CHECK(r.status.ok());
  CHECK(r.closed);
  CHECK(r.entries.size() >= 3);
  CHECK(r.entries.size() < 10);
}

TEST_CASE("A file that cannot be opened is refused at the start") {
  const auto recorder = Recorder::start({.path = "/nowhere/r"}, Metadata{});
  CHECK(contains(recorder.status().message(), "cannot write '/nowhere/r'"));
}

TEST_CASE("A confirmed incident is recorded once, with what led to it and some seconds of what followed") {
  const Folder folder;
  auto recorder = started({.incident_folder = folder.file("incidents")});
  Nanoseconds now_ns = start_ns;
  const auto second = [&](const std::string& text) {
    recorder->message(bytes_of(text), now_ns, now_ns + calendar_ns);
    recorder->tick(now_ns, now_ns + calendar_ns);
    now_ns += ns_per_s;
  };
  for (int i = 0; i < 20; ++i) second("before " + std::to_string(i));
  Incident suspected = confirmed(7);
  suspected.state = VerdictState::suspected;
  recorder->incident(suspected, now_ns, now_ns + calendar_ns);
  recorder->incident(confirmed(7), now_ns, now_ns + calendar_ns);
  recorder->incident(confirmed(7), now_ns, now_ns + calendar_ns);
  for (int i = 0; i < 20; ++i) second("after " + std::to_string(i));
  recorder->finish();
  CHECK(recorder->counters().incident_files == 1);
  const auto names = names_in(folder.file("incidents"));
  REQUIRE(names.size() == 1);
  CHECK(contains(names[0], "-7-H3.ccldrec"));
  const Reading r = read_all(Reader::open(names[0]));
  CHECK(r.closed);
  CHECK(r.metadata.source == "incident");
  CHECK(r.entries.front().message == "before 0");
  CHECK(r.entries[r.entries.size() - 2].message == "after 5");
}

TEST_CASE("An incident shortly before the end is recorded at the end") {
  const Folder folder;
  auto recorder = started({.incident_folder = folder.file("incidents")});
  recorder->tick(start_ns, start_ns);
  recorder->incident(confirmed(1), start_ns, start_ns);
  recorder->finish();
  CHECK(names_in(folder.file("incidents")).size() == 1);
}

TEST_CASE("Blocks for which there is no room are dropped, and the recording says where and how many") {
  const Folder folder;
  auto recorder = started({.path = folder.file("r"), .queue_bytes_max = 1});
  const std::string large(block_content_bytes_wanted, 'x');
  constexpr int blocks = 200;
  for (int i = 0; i < blocks; ++i) recorder->message(bytes_of(large), start_ns + i, start_ns + i + calendar_ns);
  recorder->finish();
  const uint64_t missing = recorder->counters().missing;
  const Reading r = read_all(Reader::open(folder.file("r")));
  CHECK(r.status.ok());
  uint64_t read = 0, said = 0;
  for (const Read& e : r.entries) {
    if (e.kind == EntryKind::message) ++read;
    CHECK(e.realtime_ns - e.clock_ns == calendar_ns);
    said += e.missing;
  }
  CHECK(read + missing == blocks);
  CHECK(said <= missing);  // the last block may be among them
}

TEST_CASE("A disk that does not take the recording holds up whoever finishes it for as long as that is said") {
  const Folder folder;
  const std::string path = folder.file("full");
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  auto recorder = started({.path = path, .replace = true});
  std::string noise(1 << 20, 0);  // more than a pipe holds, and not to be packed
  std::minstd_rand random(1);
  for (char& c : noise) c = static_cast<char>(random());
  recorder->message(bytes_of(noise), start_ns, start_ns);
  CHECK_FALSE(recorder->finish(absl::Milliseconds(50)));
  std::thread taker([&] {
    std::string taken(1 << 16, 0);
    pollfd ready{reader, POLLIN, 0};
    while (poll(&ready, 1, -1) > 0 && read(reader, taken.data(), taken.size()) > 0) {
    }
  });
  CHECK(recorder->finish());
  taker.join();  // the file has been closed
  close(reader);
  CHECK(recorder->counters().write_errors == 0);
}

}  // namespace ccld::test
