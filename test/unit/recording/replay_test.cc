#include "decision/server/replay.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {

using server::ReplayOptions;
using server::ReplaySummary;

namespace {

// Two ranks of which one reduces another count: H2, from the history of signatures.
std::string batch_of(int32_t rank, uint64_t count, uint64_t batch_seq = 1) {
  WireBatch b;
  add_comm_up(b, {.rank = rank, .rank_count = 3, .local_rank = rank, .cuda_device = rank});
  WireRounds rounds;
  rounds.rank = rank;
  rounds.signatures = {wire_signature(count)};
  add_rounds(b, rounds);
  const Bytes bytes = b.finish({.pid = 4711u + static_cast<uint32_t>(rank), .batch_seq = batch_seq});
  return std::string(bytes.begin(), bytes.end());
}

struct Recorded {
  explicit Recorded(bool with_ticks) {
    Metadata m;
    m.source = with_ticks ? "service" : "sink";
    std::vector<std::string> batches = {batch_of(0, 1024), batch_of(1, 1024), batch_of(2, 512), batch_of(0, 1024, 2)};
    std::vector<Entry> entries;
    for (int rank = 0; rank < 3; ++rank) entries.push_back(message_at(start_ns + rank, batches[static_cast<size_t>(rank)]));
    if (with_ticks) {
      for (int i = 1; i <= 100; ++i) entries.push_back(tick_at(start_ns + i * 100 * ns_per_ms));
    } else {
      entries.push_back(message_at(start_ns + 10 * ns_per_s, batches[3]));
    }
    bytes = beginning(m) + block_of(entries) + ending();
  }
  std::string bytes;
};

struct Result {
  ReplaySummary summary;
  std::vector<std::string> lines;
  absl::Status status;
};

Result replayed(std::string bytes, const ReplayOptions& options = {}) {
  auto reader = Reader::of(fmemopen(bytes.data(), bytes.size(), "rb"), "f.rec");
  REQUIRE(reader.ok());
  Result r;
  server::Analysis analysis(Settings{}, std::nullopt);
  r.status = replay(*reader, options, analysis, r.summary, [&](const Incident& i, Nanoseconds now_ns, int64_t realtime_ns) {
    r.lines.push_back(report::to_line(report::verdict_json(i, now_ns, {realtime_ns - now_ns})));
  });
  return r;
}

}  // namespace

TEST_CASE("A replay says what happened, at the recorded instants, every time the same") {
  const Recorded recorded(true);
  const Result once = replayed(recorded.bytes);
  CHECK(once.status.ok());
  REQUIRE_FALSE(once.lines.empty());
  CHECK(contains(once.lines.back(), "\"class\":\"H2\""));
  CHECK(contains(once.lines.back(), "\"ranks\":[2]"));
  CHECK(replayed(recorded.bytes).lines == once.lines);
  CHECK(once.summary.messages == 3);
  CHECK(once.summary.ticks == 100);
  CHECK(once.summary.processes == 3);
  CHECK(once.summary.ranks == 3);
  CHECK(once.summary.communicators == 1);
  CHECK(once.summary.seconds() == Approx(10));
}

TEST_CASE("A recording without ticks is ticked by its own clock") {
  const Result r = replayed(Recorded(false).bytes);
  REQUIRE_FALSE(r.lines.empty());
  CHECK(contains(r.lines.back(), "\"class\":\"H2\""));
  CHECK(r.summary.ticks == 0);
}

TEST_CASE("A replay stops where it is told to") {
  const Result r = replayed(Recorded(true).bytes, {.until_ns = 250 * ns_per_ms});
  CHECK(r.status.ok());
  CHECK(r.summary.ticks == 2);
  CHECK(replayed(Recorded(true).bytes, {.until_ns = 0}).summary.messages == 1);
}

TEST_CASE("A silence of years in a recording without ticks is no reason to tick for years") {
  const std::string first = batch_of(0, 1), second = batch_of(0, 1, 2);
  Metadata m;
  m.source = "sink";
  const Result r = replayed(beginning(m) + block_of({message_at(0, first), message_at(static_cast<Nanoseconds>(ingest::time_ns_max), second)}) + ending());
  CHECK(r.status.ok());
  CHECK(r.summary.messages == 2);
}

TEST_CASE("What came before the damage is analysed, then the damage is reported") {
  std::string bytes = Recorded(true).bytes;
  const size_t end_bytes = ending().size();
  bytes.resize(bytes.size() - end_bytes);
  bytes += "CBLKjunkjunk";
  const Result r = replayed(bytes);
  CHECK(contains(r.status.message(), "'f.rec', offset "));
  CHECK(r.summary.ticks == 100);
  CHECK_FALSE(r.lines.empty());
}

TEST_CASE("Messages that are no telemetry are refused as the service refuses them") {
  const std::string junk = "junk";
  const Result r = replayed(beginning() + block_of({message_at(start_ns, junk), {.kind = EntryKind::multipart, .clock_ns = start_ns}, tick_at(start_ns)}) + ending());
  CHECK(r.status.ok());
  CHECK(r.summary.messages == 1);
  CHECK(r.summary.multipart == 1);
  CHECK(r.summary.processes == 0);
}

}  // namespace ccld::test
