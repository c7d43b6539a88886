#include "decision/cli/status_check.h"

#include <catch2/catch.hpp>

namespace ccld::decision {
namespace {

using report::Json;

Json status(int open, int confirmed) {
  return {{"incidents_open", open},
          {"incidents_confirmed", confirmed},
          {"process_count", 8},
          {"silent_process_count", 1},
          {"communicator_count", 3},
          {"jobs", Json::array({{{"job", "de|mo\n"}, {"incidents_open", open}}, {{"job", "well"}, {"incidents_open", 0}}})}};
}

}  // namespace

TEST_CASE("The exit status of a check is that of a monitoring plugin") {
  CHECK(check_of(status(0, 0)).exit_code == 0);
  CHECK(check_of(status(2, 0)).exit_code == 1);
  CHECK(check_of(status(2, 1)).exit_code == 2);
  CHECK(check_unknown("no service").exit_code == 3);
}

TEST_CASE("A check is one line with its numbers behind a bar") {
  const std::string line = check_of(status(2, 1)).line;
  CHECK(line ==
        "CCLD CRITICAL: 1 confirmed incident, 1 suspected, job de/mo? (ccld explain) | confirmed=1;;0;0 suspected=1;0;;0 "
        "processes=8;;;0 silent=1;;;0;8 communicators=3;;;0");
  CHECK(check_of(status(0, 0)).line.find("CCLD OK: no open incident, 8 processes | confirmed=0") == 0);
  CHECK(check_unknown("a\nb|c").line == "CCLD UNKNOWN: a?b/c");
  CHECK_THROWS(check_of(Json::object()));
}

TEST_CASE("A check says what the first incident is that nobody has silenced") {
  Json document = status(2, 1);
  document["incidents"] = {
      {{"incident", 4}, {"kind", "HANG"}, {"title", "process of rank 2 is stopped"}, {"silenced", true}},
      {{"incident", 3}, {"kind", "SLOW"}, {"title", "GPU 6 on node1 (rank 6) | computes slowly"}, {"silenced", false}}};
  CHECK(check_of(document).line.find(
            "; 3: SLOW: GPU 6 on node1 (rank 6) / computes slowly (ccld explain) | confirmed=") != std::string::npos);
}

TEST_CASE("What is silenced is counted and said, and is no reason to call anybody") {
  Json document = status(2, 1);
  document["incidents_silenced"] = 1;
  document["incidents_silenced_confirmed"] = 1;
  CHECK(check_of(document).exit_code == 1);
  CHECK(check_of(document).line.find("CCLD WARNING: 0 confirmed incidents, 1 suspected, 1 silenced") == 0);
  document["incidents_silenced"] = 2;
  CHECK(check_of(document).exit_code == 0);
  CHECK(check_of(document).line.find("CCLD OK: no open incident, 2 silenced, 8 processes") == 0);
}

TEST_CASE("A job's own document is checked likewise") {
  const Json job = {{"job", "demo"}, {"incidents_open", 1}, {"incidents_confirmed", 1}, {"process_count", 2}};
  CHECK(check_of(job).exit_code == 2);
  CHECK(check_of(job).line.find("job demo") != std::string::npos);
}

}  // namespace ccld::decision
