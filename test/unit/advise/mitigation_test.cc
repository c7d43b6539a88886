#include "decision/report/mitigation.h"

#include <catch2/catch.hpp>

#include "decision/advise/known_settings.h"
#include "decision/report/mitigation_text.h"
#include "decision/report/text_format.h"

namespace ccld::decision::report {
namespace {

// A job of four processes of which one has a slow GPU: 240 ms, 150 ms without.
Json slow_verdict() {
  Incident i;
  i.id = 3;
  i.fault = FaultClass::s1_computation_slow;
  i.state = VerdictState::confirmed;
  i.job = "llm";
  i.rank_count = 4;
  i.confidence = 0.9;
  i.onset_ns = 100 * ns_per_s;
  i.confirmed_ns = 120 * ns_per_s;
  i.gain = {240 * ns_per_ms, 150 * ns_per_ms, true};
  Culprit c;
  c.rank = Rank{3};
  c.job_rank = Rank{3};
  c.host = "node3";
  c.component = Component::gpu;
  c.condition = Condition::gpu_late;
  c.lost_time_share = 1;
  i.culprits = {c};
  return verdict_json(i, 220 * ns_per_s, {});
}

advise::Known known_job() {
  advise::Known known;
  known.layout = {1, 1, 4, 0, "tp-dp-pp"};
  known.micro_batches = 32;
  known.micro_batch_part = 1;
  return known;
}

const Json& strategy(const Json& mitigation, const char* action) {
  for (const Json& s : member(mitigation, "strategies"))
    if (text_of(s, "action") == action) return s;
  throw std::logic_error("no such action");
}

}  // namespace

TEST_CASE("Of every condition it is known what helps") {
  for (int i = static_cast<int>(Condition::unknown) + 1; std::string(name(static_cast<Condition>(i))) != "?"; ++i) {
    Json v = slow_verdict();
    v["culprits"][0]["condition"] = name(static_cast<Condition>(i));
    INFO(v["culprits"][0]["condition"]);
    const advise::Facts facts = advice_facts(v, known_job());
    REQUIRE(facts.suspects.size() == 1);
    CHECK(facts.suspects[0].fault != advise::Fault::unknown);
  }
}

TEST_CASE("The document says what to do, what an iteration takes then and when it pays") {
  Json v = slow_verdict();
  set_mitigation(v, known_job());
  const Json& m = v["mitigation"];
  CHECK(m["loss_share"] == Approx(0.375));
  const Json& micro = strategy(m, "micro_batches");
  CHECK(micro["possible"] == true);
  CHECK(micro["why_not"].is_null());
  CHECK(micro["micro_batches"][0]["replicas"] == "0-2");
  CHECK(micro["micro_batches"][1]["replicas"] == "3");
  CHECK(micro["cost_s"] == 10);
  CHECK(micro["due_after_ms"] == Approx(10e3 / 0.375));
  CHECK(micro["due_time"] == "1970-01-01T00:02:06.666Z");
  CHECK(micro["low_ms"].get<double>() < micro["expected_ms"].get<double>());
  CHECK(strategy(m, "restart")["hosts"] == Json({"node3"}));
  CHECK(strategy(m, "restart")["expected_ms"] == 150);
}

TEST_CASE("What was known is in the document, so that others say the same") {
  Json v = slow_verdict();
  set_mitigation(v, known_job());
  Json again = slow_verdict();
  set_mitigation(again, known_from(v));
  CHECK(again == v);
  CHECK(advise::changed_known_settings(known_from(slow_verdict())).empty());
}

TEST_CASE("A page says first what to do first, with numbers") {
  Json v = slow_verdict();
  set_mitigation(v, known_job());
  const std::string text = mitigation_text(v);
  INFO(text);
  CHECK(text.find("Loss     Iterations take 240 ms; without this 150 ms.") != std::string::npos);
  CHECK(text.find("Lost so far: 45") != std::string::npos);
  CHECK(text.find("First    9 micro-batches for replicas 0-2, 5 for replica 3 (now 8 each)") != std::string::npos);
  CHECK(text.find("Check    Is it the hardware? ccld validate --incident 3 tests it.") != std::string::npos);
  CHECK(text.find("Then     Checkpoint, then restart without host node3") != std::string::npos);
  CHECK(text.find("First") < text.find("Then"));
  CHECK(text.find("pays since 1970-01-01T00:02:06Z") != std::string::npos);
  CHECK(text.find("placement: ") != std::string::npos);
}

TEST_CASE("Before anything pays the page says to wait") {
  Json v = slow_verdict();
  v["time"] = "1970-01-01T00:02:01.000Z";
  set_mitigation(v, known_job());
  CHECK(mitigation_text(v).find("Now      Wait: acting costs more than the slowness has so far.") != std::string::npos);
}

TEST_CASE("A short summary stands in the explanation of an incident") {
  Json v = slow_verdict();
  set_mitigation(v, known_job());
  const std::string text = verdict_text(v);
  INFO(text);
  CHECK(text.find("Advice   9 micro-batches for replicas 0-2") != std::string::npos);
  CHECK(text.find("ccld advise 3") != std::string::npos);
}

TEST_CASE("Of a closed incident nothing is advised") {
  Json v = slow_verdict();
  v["state"] = "resolved";
  set_mitigation(v, known_job());
  CHECK(v["mitigation"].is_null());
  CHECK(mitigation_text(v).find("Nothing: it is over.") != std::string::npos);
  CHECK(mitigation_summary(v).empty());
}

TEST_CASE(
    "The other end of a slow link gets its number in the job from another culprit, or from the communicator of the "
    "job") {
  Json v = slow_verdict();
  Json& c = v["culprits"][0];
  c["condition"] = "link_slow";
  c["component"] = "link";
  c["rank"] = 0;
  c["job_rank"] = 2;
  c["peer"] = 1;
  CHECK_FALSE(advice_facts(v, known_job()).suspects[0].peer_process.has_value());
  Json other = c;
  other["rank"] = 1;
  other["job_rank"] = 3;
  other["peer"] = nullptr;
  v["culprits"].push_back(other);
  CHECK(advice_facts(v, known_job()).suspects[0].peer_process == 3u);
  v["culprits"].erase(1);
  v["culprits"][0]["job_rank"] = 0;
  CHECK(advice_facts(v, known_job()).suspects[0].peer_process == 1u);
}

TEST_CASE("Names of hosts cannot leave their line") {
  Json v = slow_verdict();
  v["culprits"][0]["host"] = "node\n\x1b[2J3";
  set_mitigation(v, known_job());
  const std::string text = mitigation_text(v);
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("node\n") == std::string::npos);
}

}  // namespace ccld::decision::report
