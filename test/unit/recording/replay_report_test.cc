#include "decision/cli/replay_report.h"

#include "test/unit/recording/recordings.h"

namespace ccld::test {
namespace {

report::Json verdict(uint64_t id, FaultClass fault, int rank) {
  Incident i;
  i.id = id;
  i.fault = fault;
  i.state = VerdictState::confirmed;
  i.onset_ns = start_ns;
  i.suspected_ns = start_ns + 2 * ns_per_s;
  Culprit c;
  c.rank = Rank(rank);
  c.component = Component::gpu;
  i.culprits = {c};
  return report::verdict_json(i, start_ns, {calendar_ns});
}

}  // namespace

TEST_CASE("Of every incident the newest verdict stays, in order of appearance") {
  FinalVerdicts final;
  final.see(verdict(1, FaultClass::h1_not_entered, 1));
  final.see(verdict(2, FaultClass::h1_not_entered, 2));
  final.see(verdict(1, FaultClass::h3_hardware, 5));
  REQUIRE(final.all().size() == 2);
  CHECK(final.all()[0]["class"] == "H3");
  CHECK(final.all()[1]["incident"] == 2);
  CHECK(contains(verdicts_text(final.all()), "rank 5"));
  CHECK(verdicts_text(report::Json::array()) == "no incident\n");
}

TEST_CASE("Two rule sets stand side by side, also where one of them has nothing to say") {
  const report::Json measured = {verdict(1, FaultClass::h3_hardware, 3)}, paper = {verdict(1, FaultClass::h3_hardware, 4)};
  const std::string text = comparison_text(measured, paper);
  CHECK(contains(text, "default"));
  CHECK(contains(text, "paper"));
  CHECK(contains(text, "2.0 s"));
  const size_t ranks = text.find("\nranks ");
  REQUIRE(ranks != std::string::npos);
  const std::string row = text.substr(ranks + 1, text.find('\n', ranks + 1) - ranks - 1);
  CHECK(row.find('3') < row.find('4'));
  CHECK(contains(comparison_text(measured, report::Json::array()), "no incident"));
  CHECK(contains(comparison_text(report::Json::array(), report::Json::array()), "no incident"));
}

TEST_CASE("The facts of a recording name its settings, its content and how it ended") {
  RecordingFacts f{.path = "f.rec", .file_bytes = 12345};
  f.metadata.version = "0.1.0";
  f.metadata.host = "node-a";
  f.metadata.settings = {{"hang_confirm_s", "5"}};
  f.summary = {.first_ns = start_ns, .last_ns = start_ns + 12 * ns_per_s, .first_realtime_ns = start_ns + calendar_ns, .messages = 240, .processes = 8, .ranks = 8, .communicators = 1};
  std::string text = facts_text(f);
  CHECK(contains(text, "12,345 bytes"));
  CHECK(contains(text, "hang_confirm_s=5"));
  CHECK(contains(text, "8 ranks in 1 communicator"));
  CHECK(contains(text, "cut off"));
  f.ending = Ending{.reason = "stopped"};
  CHECK(contains(facts_text(f), "stopped"));
  CHECK(facts_json(f)["summary"]["messages"] == 240);
}

}  // namespace ccld::test
