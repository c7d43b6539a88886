// What a node of a cluster reports: what is in the common log, and nothing else.
#include <catch2/catch.hpp>

#include "decision/server/reporter.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

using server::Reporter;
using server::VerdictWriter;

struct ReportingNode {
  Folder folder;
  std::unique_ptr<Reporter> reporter;

  ReportingNode() {
    auto history = History::open({.folder = folder.file("state"),
                                  .run = run_named("first"),
                                  .limits = {.bytes_max = 64 << 20, .age_max_ms = ms_per_day}},
                                 start_ms);
    REQUIRE(history.ok());
    reporter = std::make_unique<Reporter>(*VerdictWriter::open(folder.file("v.jsonl")), *std::move(history),
                                          Reporter::Bounds());
  }

  void report(std::vector<Incident> incidents) { reporter->report(std::move(incidents), 5, start_ms * ns_per_ms); }
  static Incident incident(uint64_t id, uint32_t revision, size_t extra_bytes = 0) {
    Incident i;
    i.id = id;
    i.run = "first";
    i.revision = revision;
    i.job = "demo";
    i.next_step = std::string(extra_bytes, 'x');
    i.onset_ns = i.suspected_ns = 1;
    return i;
  }
  // Incidents of the verdict lines.
  std::vector<uint64_t> told() const {
    std::vector<uint64_t> all;
    std::ifstream file(folder.file("v.jsonl"));
    for (std::string line; std::getline(file, line);) all.push_back(number_of(Json::parse(line), "incident"));
    return all;
  }
};

}  // namespace

TEST_CASE("Of what is found at once, what the log took is stored and told; what it refused is not") {
  ReportingNode node;
  int taken = 0;
  node.reporter->keep_with([&](const Json&) { return ++taken == 1; });
  node.report({ReportingNode::incident(1, 1, 300'000), ReportingNode::incident(2, 1, 300'000)});
  node.reporter->finish();
  CHECK(taken == 2);
  CHECK(node.told() == std::vector<uint64_t>{1});
  CHECK(node.reporter->counters().revisions_stored == 1);
}

}  // namespace ccld::test
