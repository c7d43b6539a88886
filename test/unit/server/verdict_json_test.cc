#include "decision/report/verdict_json.h"

#include <catch2/catch.hpp>
#include <limits>

#include "decision/report/headline.h"

namespace ccld::decision {

using namespace report;

namespace {

constexpr Nanoseconds onset_ns = 100 * ns_per_s;
const WallClock clock_2023{1'700'000'000 * ns_per_s - onset_ns};  // the onset is 2023-11-14T22:13:20Z

Incident hang() {
  Incident i;
  i.id = 7;
  i.fault = FaultClass::h3_hardware;
  i.state = VerdictState::confirmed;
  i.job = "demo";
  i.comm = CommUid(0xabc);
  i.comm_name = "tp0";
  i.rank_count = 8;
  i.op = OpSeq(42);
  i.signature = {1024, -1, abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, abi::Algorithm::ring,
                 abi::Protocol::simple, 0, 2};
  Culprit link;
  link.rank = Rank(3);
  link.host = "node-a";
  link.pid = 4711;
  link.cuda_device = 3;
  link.gpu_bus_id = "0000:10:00.0";
  link.component = Component::link;
  link.channel = 1;
  link.peer = Rank(4);
  link.net_name = "mlx5_0";
  link.condition = Condition::nothing_arrives;
  link.reason = "nothing arrives";
  link.job_rank = Rank(11);
  link.peer_host = "node-b";
  i.culprits = {link, link};
  i.victim_count = 7;
  i.victim_sample = {Rank(0), Rank(1)};
  i.confidence = 0.95;
  i.evidence = {{.kind = EvidenceKind::steps_posted, .rank = 3, .peer = 4, .channel = 1, .value = 128}};
  i.waits = {{.rank = Rank(4), .waits_for = Rank(3), .what = WaitFor::step, .channel = 1, .wanted = 133, .posted = 128, .age_ns = ns_per_s}};
  i.next_step = "look at the cable";
  i.onset_ns = onset_ns;
  i.suspected_ns = onset_ns + 5 * ns_per_s;
  i.located_ns = onset_ns + 5 * ns_per_s + 1500 * 1000;
  i.confirmed_ns = onset_ns + 15 * ns_per_s;
  return i;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> result;
  for (const auto& item : object.items()) result.push_back(item.key());
  return result;
}

}  // namespace

TEST_CASE("A verdict line has the documented fields in the documented order") {
  const Json line = Json::parse(to_line(verdict_json(hang(), onset_ns + 20 * ns_per_s, clock_2023)));
  CHECK(keys(line) == std::vector<std::string>{
                          "time", "incident", "run", "revision", "class", "class_title", "kind", "title", "state", "rules", "job", "communicator", "comm_name", "rank_count",
                          "op_seq", "operation", "ranks", "culprits", "candidates", "victims", "confidence", "evidence", "next_step", "commands", "advice",
                          "suspected_ms", "confirmed_ms", "located_ms", "resolved_ms", "onset_time", "suspected_time",
                          "confirmed_time", "located_time", "resolved_time", "replay", "victim_communicators",
                          "victim_communicator_count", "waits", "cycle", "stage", "gain"});
  CHECK(keys(line["stage"]) == std::vector<std::string>{"role", "role_confidence", "phase", "phase_confidence", "effect",
                                                        "iteration_usual_ms", "iteration_now_ms"});
  CHECK(keys(line["operation"]) ==
        std::vector<std::string>{"function", "count", "datatype", "reduction", "root", "algorithm", "protocol", "channels", "bytes"});
  CHECK(keys(line["culprits"][0]) == std::vector<std::string>{"rank", "job_rank", "host", "pid", "gpu", "bus_id", "component", "condition",
                                                              "channel", "peer", "peer_host",
                                                              "net", "lost_time_share", "reason"});
  CHECK(keys(line["victims"]) == std::vector<std::string>{"count", "sample"});
  CHECK(keys(line["evidence"][0]) == std::vector<std::string>{"kind", "rank", "peer", "channel", "op_seq", "what", "value", "unit", "time"});
}

TEST_CASE("A verdict line says what the incident says") {
  const Json line = verdict_json(hang(), onset_ns + 20 * ns_per_s, clock_2023);
  CHECK(line["time"] == "2023-11-14T22:13:40.000Z");
  CHECK(line["incident"] == 7);
  CHECK(line["class"] == "H3");
  CHECK(line["title"] == "nothing arrives over link rank 3 -> rank 4 of tp0 (channel 1)");
  CHECK(line["state"] == "confirmed");
  CHECK(line["rules"] == "default");
  CHECK(line["communicator"] == "0000000000000abc");
  CHECK(line["op_seq"] == 42);
  CHECK(line["operation"]["function"] == "AllReduce");
  CHECK(line["operation"]["root"].is_null());
  CHECK(line["operation"]["bytes"] == 4096);
  CHECK(line["culprits"][0]["job_rank"] == 11);
  CHECK(line["evidence"][0]["kind"] == "steps_posted");
  CHECK(line["evidence"][0]["what"] == "its GPU posted for rank 4 on channel 1");
  CHECK(line["waits"][0]["step_wanted"] == 133);
  CHECK(line["commands"][0]["host"] == "node-a");
  CHECK(line["commands"][0]["command"] == "ip -s link show dev mlx5_0 2>/dev/null || rdma statistic show link mlx5_0");
  CHECK(line["ranks"] == Json::parse("[3]"));  // two culprits of one rank
  CHECK(line["culprits"].size() == 2);
  CHECK(line["culprits"][0]["peer"] == 4);
  CHECK(line["culprits"][0]["component"] == "link");
  CHECK(line["victims"]["count"] == 7);
  CHECK(line["suspected_ms"] == 5000);
  CHECK(line["located_ms"] == 5001.5);
  CHECK(line["confirmed_ms"] == 15000);
  CHECK(line["resolved_ms"].is_null());
  CHECK(line["resolved_time"].is_null());
  CHECK(line["located_time"] == "2023-11-14T22:13:25.001Z");
}

namespace {

// What a verdict about one culprit is called.
std::string title_of(Incident i, Condition condition, const std::string& reason = "") {
  i.culprits = {Culprit{.rank = Rank(4), .host = "node-a", .cuda_device = 2, .condition = condition, .reason = reason}};
  return verdict_json(i, onset_ns, clock_2023)["title"];
}

}  // namespace

TEST_CASE("A title names the call that is missing, not the one that waits for it") {
  Incident i;
  i.signature.function = abi::Function::recv;  // the waiter's
  CHECK(title_of(i, Condition::not_called, "did not call Send 12 to rank 1") == "rank 4 did not call Send 12 to rank 1");
  CHECK(title_of(i, Condition::not_launched, "called Send 12 with rank 1 but did not launch it") ==
        "rank 4 called Send 12 with rank 1 but did not launch it");
  CHECK(title_of(i, Condition::kernel_not_started, "launched Send 12 to rank 1 but its kernel never started: GPU busy") ==
        "rank 4 launched Send 12 to rank 1 but its kernel never started");
  CHECK(title_of(i, Condition::replay_not_begun, "its GPU did not begin replay 9 of Send 1 to rank 1") ==
        "GPU 2 on node-a (rank 4) did not begin replay 9 of Send 1 to rank 1");
}

TEST_CASE("A title says whether a host lacks processors, or one process alone gets none") {
  Incident i = hang();
  i.culprits.resize(1);
  i.culprits[0].condition = Condition::processors_short, i.culprits[0].host = "node-a";
  i.culprits[0].component = Component::host;
  CHECK(headline(i) == "host node-a is short of processors");
  i.culprits[0].component = Component::process;
  CHECK(headline(i) == "rank 3 of tp0 gets no processor");
}

TEST_CASE("A title does not say that a call hangs in which ranks only differ") {
  Incident i;
  i.fault = FaultClass::h2_inconsistent;
  i.op = OpSeq{2};
  i.signature.function = abi::Function::all_reduce;
  i.candidates = {Rank{0}, Rank{1}};
  CHECK(headline(i) == "ranks differ in AllReduce #2, 2 candidates");
  i.fault = FaultClass::h1_not_entered;
  CHECK(headline(i) == "AllReduce #2 does not end, 2 candidates");
}

TEST_CASE("A title does not say that the rank made the call of the others") {
  Incident i = hang();
  i.fault = FaultClass::h2_inconsistent;
  CHECK(title_of(i, Condition::call_differs, "function differs in operation 42") == "operation #42 of rank 4 differs from the other ranks'");
  CHECK(title_of(i, Condition::call_added) == "rank 4 made one call too many, operation #42");
  CHECK(title_of(i, Condition::call_skipped) == "rank 4 skipped AllReduce #42");
  CHECK(title_of(i, Condition::not_called, "did not call operation 42") == "rank 4 did not call AllReduce #42");
  i.replay = 9;
  CHECK(title_of(i, Condition::replay_not_begun, "its GPU did not begin replay 9 of operation 42") ==
        "GPU 2 on node-a (rank 4) did not begin replay 9 of AllReduce #42");
}

TEST_CASE("A title says whose rank it is where the job gives it another number") {
  Incident i = hang();
  i.culprits.resize(1);
  const auto title = [&] { return verdict_json(i, onset_ns, clock_2023)["title"].get<std::string>(); };
  i.culprits[0].condition = Condition::gpu_late;
  CHECK(title() == "GPU 3 on node-a (rank 3 of tp0) computes slowly");
  i.comm_name.clear();
  CHECK(title() == "GPU 3 on node-a (rank 3 of 0000000000000abc) computes slowly");
  i.culprits[0].job_rank = Rank(3);
  CHECK(title() == "GPU 3 on node-a (rank 3) computes slowly");
  i.culprits[0].job_rank.reset();
  CHECK(title() == "GPU 3 on node-a (rank 3) computes slowly");
}

TEST_CASE("Commands hold nothing that a shell could read as more than a name") {
  Incident i = hang();
  i.culprits.resize(1);
  const auto command = [&] { return verdict_json(i, onset_ns, clock_2023)["commands"][0]["command"].get<std::string>(); };
  i.culprits[0].net_name = "-x";
  CHECK(command() == "ip -s link; rdma statistic show");
  i.culprits[0].condition = Condition::gpu_late;
  CHECK(command() == "nvidia-smi -i 0000:10:00.0 -q -d CLOCK,PERFORMANCE,TEMPERATURE");
  i.culprits[0].gpu_bus_id = "0; reboot";
  CHECK(command() == "nvidia-smi -i 3 -q -d CLOCK,PERFORMANCE,TEMPERATURE");
}

TEST_CASE("A closed incident has no commands and no advice") {
  Incident i = hang();
  i.culprits[0].condition = Condition::stopped;
  CHECK(verdict_json(i, onset_ns, clock_2023)["commands"].size() == 2);
  CHECK(verdict_json(i, onset_ns, clock_2023)["advice"].get<std::string>().starts_with("If it was stopped on purpose: kill -CONT 4711."));
  for (const VerdictState state : {VerdictState::resolved, VerdictState::ended}) {
    i.state = state;
    CHECK(verdict_json(i, onset_ns, clock_2023)["commands"] == Json::array());
    CHECK(verdict_json(i, onset_ns, clock_2023)["advice"].is_null());
  }
}

TEST_CASE("Of a late process the advice is about the process, not about its GPU") {
  Incident i;
  i.fault = FaultClass::s1_computation_slow;
  i.culprits = {Culprit{.rank = Rank(2), .condition = Condition::host_late}};
  CHECK(verdict_json(i, onset_ns, clock_2023)["advice"] ==
        "Look at what the process does between its calls: data loading, CPU load, its Python stack.");
  i.culprits.push_back(Culprit{.rank = Rank(3), .condition = Condition::gpu_late});
  CHECK(verdict_json(i, onset_ns, clock_2023)["advice"].is_null());
}

TEST_CASE("What is not known is null, lists are never null") {
  const Json line = verdict_json(Incident{}, 0, {});
  for (const char* key : {"comm_name", "op_seq", "suspected_ms", "confirmed_ms", "located_ms", "onset_time"}) CHECK(line[key].is_null());
  for (const char* key : {"ranks", "culprits", "candidates", "evidence"}) CHECK(line[key] == Json::array());
  CHECK(line["victims"]["sample"] == Json::array());
  Incident someone;
  someone.culprits.resize(1);
  const Json culprit = verdict_json(someone, 0, {})["culprits"][0];
  for (const char* key : {"gpu", "bus_id", "channel", "peer", "net"}) CHECK(culprit[key].is_null());
}

TEST_CASE("What the job would gain is known of slowness only") {
  CHECK(verdict_json(hang(), onset_ns, clock_2023)["gain"].is_null());
  Incident slow;
  slow.gain = {530 * ns_per_ms, 412 * ns_per_ms, true};
  const Json gain = verdict_json(slow, onset_ns, clock_2023)["gain"];
  CHECK(keys(gain) == std::vector<std::string>{"of", "now_ms", "without_ms", "share"});
  CHECK(gain["of"] == "iteration");
  CHECK(gain["now_ms"] == 530);
  CHECK(gain["without_ms"] == 412);
  CHECK(gain["share"].get<double>() == Approx(118.0 / 530));
  slow.gain.of_iteration = false;
  CHECK(verdict_json(slow, onset_ns, clock_2023)["gain"]["of"] == "operations compared");
}

TEST_CASE("A verdict is one line of valid JSON whatever its texts and numbers are") {
  Incident i = hang();
  i.job = "two\nlines \"quoted\" \xff\xfe not UTF-8";
  i.confidence = std::numeric_limits<double>::quiet_NaN();
  i.evidence[0].value = std::numeric_limits<double>::infinity();
  i.comm = CommUid(std::numeric_limits<uint64_t>::max());
  const std::string line = to_line(verdict_json(i, onset_ns, clock_2023));
  CHECK(line.find('\n') == std::string::npos);
  const Json parsed = Json::parse(line, nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  CHECK(parsed["communicator"] == "ffffffffffffffff");
  CHECK(parsed["confidence"].is_null());
}

}  // namespace ccld::decision
