#include "decision/report/verdict_json.h"

#include <catch2/catch.hpp>
#include <limits>

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
  link.reason = "nothing arrives";
  i.culprits = {link, link};
  i.victim_count = 7;
  i.victim_sample = {Rank(0), Rank(1)};
  i.confidence = 0.95;
  i.evidence = {{4, "channel 1 wants step 133, sent", 128, "steps"}};
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
                          "time", "incident", "class", "title", "state", "rules", "job", "communicator", "comm_name", "rank_count",
                          "op_seq", "operation", "ranks", "culprits", "candidates", "victims", "confidence", "evidence", "next_step",
                          "suspected_ms", "confirmed_ms", "located_ms", "resolved_ms", "onset_time", "suspected_time",
                          "confirmed_time", "located_time", "resolved_time", "replay", "victim_communicators",
                          "victim_communicator_count", "cycle", "stage", "gain"});
  CHECK(keys(line["stage"]) == std::vector<std::string>{"role", "role_confidence", "phase", "phase_confidence", "effect",
                                                        "iteration_usual_ms", "iteration_now_ms"});
  CHECK(keys(line["operation"]) ==
        std::vector<std::string>{"function", "count", "datatype", "reduction", "root", "algorithm", "protocol", "channels"});
  CHECK(keys(line["culprits"][0]) == std::vector<std::string>{"rank", "host", "pid", "gpu", "bus_id", "component", "channel", "peer",
                                                              "net", "lost_time_share", "reason"});
  CHECK(keys(line["victims"]) == std::vector<std::string>{"count", "sample"});
  CHECK(keys(line["evidence"][0]) == std::vector<std::string>{"rank", "what", "value", "unit"});
}

TEST_CASE("A verdict line says what the incident says") {
  const Json line = verdict_json(hang(), onset_ns + 20 * ns_per_s, clock_2023);
  CHECK(line["time"] == "2023-11-14T22:13:40.000Z");
  CHECK(line["incident"] == 7);
  CHECK(line["class"] == "H3");
  CHECK(line["state"] == "confirmed");
  CHECK(line["rules"] == "default");
  CHECK(line["communicator"] == "0000000000000abc");
  CHECK(line["op_seq"] == 42);
  CHECK(line["operation"]["function"] == "AllReduce");
  CHECK(line["operation"]["root"].is_null());
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
