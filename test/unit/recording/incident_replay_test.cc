// Incidents of real runs, recorded by a service that had to forget most of the run, replay to their verdicts.
#include "decision/server/analysis_loop.h"
#include "decision/server/replay.h"
#include "test/unit/recording/recordings.h"

namespace ccld::test {

using server::ReplaySummary;

namespace {

const std::string golden_folder = CCLD_GOLDEN_RECORDINGS;

struct Verdict {
  std::string fault, state;
  report::Json ranks;
};

Verdict final_verdict(const std::string& path, uint64_t* length_ns = nullptr) {
  auto reader = Reader::open(path);
  REQUIRE(reader.ok());
  std::vector<std::string> warnings;
  server::Analysis analysis(recording::settings_of(reader->metadata(), warnings), std::nullopt);
  ReplaySummary summary;
  report::Json last;
  REQUIRE(replay(*reader, {}, analysis, summary, [&](const Incident& i, Nanoseconds now_ns, int64_t realtime_ns) {
            last = report::verdict_json(i, now_ns, {realtime_ns - now_ns});
          }).ok());
  if (length_ns != nullptr) *length_ns = static_cast<uint64_t>(summary.last_ns - summary.first_ns);
  if (last.is_null()) return {};
  return {last["class"], last["state"], last["ranks"]};
}

// The service of the golden run once more, with little memory for incidents. The path of the incident's recording.
std::string record_again(const std::string& path, const Folder& folder, uint64_t history_bytes) {
  auto reader = Reader::open(path);
  REQUIRE(reader.ok());
  std::vector<std::string> warnings;
  const Settings settings = recording::settings_of(reader->metadata(), warnings);
  auto recorder = Recorder::start({.incident_folder = folder.file("incidents"), .history_bytes_max = history_bytes}, reader->metadata());
  REQUIRE(recorder.ok());
  auto writer = server::VerdictWriter::open(folder.file("verdicts"));
  REQUIRE(writer.ok());
  const auto reporter = std::make_shared<server::Reporter>(*std::move(writer), nullptr, server::Reporter::Bounds());
  server::AnalysisLoop loop(settings, reporter, std::make_shared<server::SnapshotStore>(), *std::move(recorder), Numbering{}, 0, 0);
  const auto send = [](const std::string&, absl::Span<const uint8_t>) { return false; };  // nobody is there
  Entry e;
  for (;;) {
    const auto found = reader->next(e);
    REQUIRE(found.ok());
    if (!*found) break;
    if (e.kind == EntryKind::message) {
      const std::string connection;
      const server::AnalysisLoop::Message message{e.message, &connection};
      loop.on_messages({&message, 1}, e.clock_ns, e.realtime_ns, send, [](size_t, const Batch&) {});
    }
    if (e.kind == EntryKind::tick) loop.tick(e.clock_ns, e.realtime_ns, [&] { return e.clock_ns; });
  }
  CHECK(loop.finish(absl::InfiniteDuration()));
  for (const auto& entry : std::filesystem::directory_iterator(folder.file("incidents"))) return entry.path();
  FAIL("no recording of an incident");
  return "";
}

}  // namespace

TEST_CASE("A recording of an incident replays to its verdict, also where the middle had to be forgotten") {
  // So much that the seconds before the fault are kept, and earlier ones are not.
  const std::vector<std::pair<std::string, uint64_t>> runs = {{"h1_stopped", 40 << 10}, {"h2_other_operation", 60 << 10}, {"h3_frozen_ring", 40 << 10}};
  for (const auto& [name, history_bytes] : runs) {
    INFO(name);
    const std::string golden = golden_folder + "/" + name + ".ccldrec";
    uint64_t whole_ns = 0, kept_ns = 0;
    const Verdict live = final_verdict(golden, &whole_ns);
    REQUIRE_FALSE(live.fault.empty());
    const Folder folder;
    const std::string incident = record_again(golden, folder, history_bytes);
    const Verdict replayed = final_verdict(incident, &kept_ns);
    CHECK(kept_ns < whole_ns);
    CHECK(replayed.fault == live.fault);
    CHECK(replayed.ranks == live.ranks);
    CHECK(replayed.state == live.state);
  }
}

TEST_CASE("A recording of an incident for which there was room is whole, also of a slow one") {
  for (const char* name : {"s1_slow_clock", "h3_frozen_tree"}) {
    INFO(name);
    const std::string golden = golden_folder + "/" + name + ".ccldrec";
    const Verdict live = final_verdict(golden);
    const Folder folder;
    const Verdict replayed = final_verdict(record_again(golden, folder, 64 << 20));
    CHECK(replayed.fault == live.fault);
    CHECK(replayed.ranks == live.ranks);
    CHECK(replayed.state == live.state);
  }
}

}  // namespace ccld::test
