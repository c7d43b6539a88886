// Threads and what is taken in together change nothing of what is found: every golden recording, with all that came
// between two ticks given at once, and one by one.
#include <filesystem>

#include "decision/server/analysis.h"
#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

std::vector<std::string> verdicts(const std::string& path, bool together, size_t threads) {
  auto reader = Reader::open(path);
  REQUIRE(reader.ok());
  std::vector<std::string> warnings, lines;
  server::Analysis analysis(recording::settings_of(reader->metadata(), warnings), std::nullopt, {}, threads);
  std::vector<std::string> waiting;
  Entry e;
  for (;;) {
    const auto found = reader->next(e);
    if (!found.ok() || !*found) return lines;
    if (e.kind == EntryKind::message) waiting.emplace_back(e.message.begin(), e.message.end());
    if (e.kind != EntryKind::tick) continue;
    std::vector<server::Analysis::Message> messages;
    for (const std::string& bytes : waiting)
      messages.push_back({{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}});
    size_t each = together ? messages.size() : 1;
    for (size_t i = 0; i < messages.size(); i += each)
      analysis.on_messages(absl::MakeConstSpan(messages).subspan(i, each), e.clock_ns, e.realtime_ns,
                           [](size_t, const Batch*) {});
    waiting.clear();
    for (const Incident& incident : analysis.tick(e.clock_ns, e.realtime_ns))
      lines.push_back(report::to_line(report::verdict_json(incident, e.clock_ns, {e.realtime_ns - e.clock_ns})));
  }
}

}  // namespace

TEST_CASE("however many threads take in whatever came together, the verdicts are the same to the byte") {
  size_t recordings = 0, lines = 0;
  for (const auto& file : std::filesystem::directory_iterator(CCLD_GOLDEN_RECORDINGS)) {
    if (file.path().extension() != ".ccldrec") continue;
    INFO(file.path());
    const std::vector<std::string> expected = verdicts(file.path(), false, 1);
    for (const size_t threads : {1, 2, 8}) CHECK(verdicts(file.path(), true, threads) == expected);
    ++recordings;
    lines += expected.size();
  }
  CHECK(recordings >= 10);
  CHECK(lines >= recordings);
}

}  // namespace ccld::test
