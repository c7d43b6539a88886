#include "decision/cli/top_screen.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "decision/report/status_pages.h"
#include "decision/report/text_format.h"
#include "decision/report/verdict_json.h"

namespace ccld::decision {
namespace {

// As /v1/incidents answers.
report::Json incidents_of(const report::Snapshot& s) {
  report::Json rows = report::Json::array();
  for (const Incident& i : s.incidents) rows.push_back(report::verdict_json(i, s.now_ns, s.clock));
  return {{"incidents", std::move(rows)}};
}

report::Snapshot snapshot(int comms, int incidents) {
  report::Snapshot s;
  for (int c = 0; c < comms; ++c) {
    CommStatus comm;
    comm.comm = CommUid(static_cast<uint64_t>(c) + 1);
    comm.job = "demo";
    s.status.communicators.push_back(comm);
  }
  for (int i = 0; i < incidents; ++i) {
    Incident incident;
    incident.id = static_cast<uint64_t>(i) + 1;
    incident.job = "demo";
    incident.state = i == 1 ? VerdictState::confirmed : i == 0 ? VerdictState::resolved : VerdictState::suspected;
    incident.culprits = {Culprit{.rank = Rank(5), .host = "node-1", .component = Component::gpu}};
    s.incidents.push_back(incident);
  }
  return s;
}

}  // namespace

TEST_CASE("A screen holds open incidents first, jobs, communicators, and how to leave") {
  const report::Snapshot s = snapshot(100, 40);
  for (const auto& [columns, rows] : {std::pair<size_t, size_t>{80, 24}, {40, 10}, {132, 60}}) {
    const auto lines = top_screen(report::status_json(s, false), incidents_of(s), columns, rows);
    CHECK(lines.size() == rows);
    for (const std::string& line : lines) CHECK(report::width_of(line) <= columns);
    CHECK(absl::StrContains(lines[0], "INCIDENT"));
    CHECK(absl::StrContains(lines[1], "confirmed"));
    CHECK(lines.back() == "q: quit");
    CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& l) { return absl::StrContains(l, "resolved"); }));
  }
  const auto lines = top_screen(report::status_json(s, false), incidents_of(s), 80, 24);
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& l) { return absl::StartsWith(l, "COMMUNICATOR"); }));
}

TEST_CASE("Of several culprits the screen names the one with the greatest share, by its rank in the communicator") {
  report::Snapshot s = snapshot(1, 2);
  s.incidents[1].comm_name = "dp1";
  s.incidents[1].culprits = {Culprit{.rank = Rank(5), .host = "node-1", .component = Component::gpu, .lost_time_share = 0.2},
                             Culprit{.rank = Rank(2), .job_rank = Rank(6), .host = "node-2", .component = Component::link, .lost_time_share = 0.7}};
  const auto lines = top_screen(report::status_json(s, false), incidents_of(s), 120, 24);
  CHECK(absl::StrContains(lines[1], "rank 2 of dp1 link on node-2 and 1 more"));
}

TEST_CASE("A quiet screen begins with the service") {
  const report::Snapshot s = snapshot(1, 0);
  const auto lines = top_screen(report::status_json(s, false), incidents_of(s), 80, 24);
  CHECK(absl::StartsWith(lines[0], "ccld "));
}

}  // namespace ccld::decision
