// A service that is killed in the middle of its work on the history, at moments that a seed chooses.
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "decision/history/reader.h"
#include "decision/server/reporter.h"
#include "test/unit/history/killing_disk.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

using server::Reporter;
using server::VerdictWriter;

constexpr int runs = 100;
constexpr int incidents_each = 4;
constexpr int64_t never_too_old_ms = 100'000 * ms_per_day;
// A run makes about so many writes and syncs: most are killed, some end by themselves.
constexpr uint64_t disk_calls_max = 40;

Incident incident(uint64_t id, const std::string& run, uint32_t revision) {
  Incident i;
  i.id = id;
  i.run = run;
  i.revision = revision;
  i.state = revision == 1 ? VerdictState::suspected : revision == 2 ? VerdictState::confirmed : VerdictState::resolved;
  i.job = "demo";
  i.onset_ns = i.suspected_ns = 1;
  return i;
}

// What a service does with its incidents, without its telemetry.
void report_incidents(const Folder& folder, const std::string& run, bool leaves_open) {
  auto history = History::open({.folder = folder.file("state"),
                                .run = run_named(run),
                                .limits = {.bytes_max = 64 << 20, .age_max_ms = never_too_old_ms}},
                               start_ms);
  if (!history.ok()) _exit(2);
  const uint64_t first = (*history)->last_id_before() + 1;
  Reporter reporter(*VerdictWriter::open(folder.file("v.jsonl")), *std::move(history), {});
  reporter.end_left_open(start_ms * ns_per_ms);
  for (uint32_t revision = 1; revision <= (leaves_open ? 2u : 3u); ++revision)
    for (uint64_t id = first; id < first + incidents_each; ++id)
      reporter.report({incident(id, run, revision)}, 5, start_ms * ns_per_ms);
  reporter.finish();
  _exit(0);
}

using Key = std::pair<uint64_t, uint64_t>;  // incident, revision

}  // namespace

TEST_CASE("At whatever write to its history a service is killed, no revision that was reported is lost or doubled") {
  const Folder folder;
  const uint32_t seed = GENERATE(1u, 2u);
  INFO("seed " << seed << ", " << folder.file(""));
  std::mt19937 random(seed);
  int killed = 0;
  for (int run = 0; run < runs; ++run) {
    const uint64_t at = random() % disk_calls_max + 1;
    const bool leaves_open = random() % 2 == 0;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      be_killed_at_disk_call(at);
      report_incidents(folder, "run-" + std::to_string(run), leaves_open);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    killed += WIFSIGNALED(status) ? 1 : 0;
    REQUIRE((WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0));
  }
  CHECK(killed > runs / 2);

  auto reader = *HistoryReader::open(database_path(folder.file("state")));
  std::map<Key, Json> stored;
  const auto revisions_of = [&](uint64_t id) {
    if (stored.contains({id, 1})) return;
    const auto revisions = reader.revisions(id);
    INFO(id << ": " << revisions.status());
    REQUIRE(revisions.ok());
    uint64_t number = 0;
    for (Json revision : *revisions) {
      CHECK(number_of(revision, "revision") == ++number);  // none is missing, none is there twice
      revision.erase("recording");
      revision.erase("acknowledged");
      stored[{id, number}] = std::move(revision);
    }
  };
  std::set<Key> seen;
  std::map<uint64_t, std::string> run_of;
  std::ifstream lines(folder.file("v.jsonl"));
  size_t lost = 0, doubled = 0, differing = 0;
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text);
    const Key key{number_of(line, "incident"), number_of(line, "revision")};
    revisions_of(key.first);
    lost += stored.contains(key) ? 0 : 1;
    differing += stored.contains(key) && stored[key] != line ? 1 : 0;
    doubled += seen.insert(key).second ? 0 : 1;
    CHECK(run_of.try_emplace(key.first, text_of(line, "run")).first->second ==
          text_of(line, "run"));  // no number is given twice
  }
  CHECK(lost == 0);
  CHECK(differing == 0);
  CHECK(doubled == 0);
  CHECK(seen.size() > static_cast<size_t>(runs));
}

}  // namespace ccld::test
