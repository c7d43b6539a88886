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
    const auto lines = top_screen(report::status_json(s, false), columns, rows);
    CHECK(lines.size() == rows);
    for (const std::string& line : lines) CHECK(report::width_of(line) <= columns);
    CHECK(absl::StrContains(lines[0], "INCIDENT"));
    CHECK(absl::StrContains(lines[1], "confirmed"));
    CHECK(lines.back() == "q: quit");
    CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& l) { return absl::StrContains(l, "resolved"); }));
  }
  const auto lines = top_screen(report::status_json(s, false), 80, 24);
  CHECK(std::any_of(lines.begin(), lines.end(), [](const std::string& l) { return absl::StartsWith(l, "COMMUNICATOR"); }));
}

TEST_CASE("The screen says of an incident what its title says, and how many are not shown") {
  report::Snapshot s = snapshot(1, 40);
  s.status.incidents_open = 39;
  s.incidents[1].culprits[0].condition = Condition::gpu_late;
  s.incidents[1].culprits[0].cuda_device = 5;
  s.incidents[1].fault = FaultClass::s1_computation_slow;
  const auto lines = top_screen(report::status_json(s, false), 80, 24);
  CHECK(absl::StrContains(lines[1], "SLOW: GPU 5 on node-1 (rank 5) computes slowly"));
  CHECK(lines[7] == "and 33 more (ccld incidents --open)");
}

TEST_CASE("A quiet screen begins with the service") {
  const report::Snapshot s = snapshot(1, 0);
  const auto lines = top_screen(report::status_json(s, false), 80, 24);
  CHECK(absl::StartsWith(lines[0], "ccld "));
}

}  // namespace ccld::decision
