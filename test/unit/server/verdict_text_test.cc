#include "decision/report/verdict_text.h"

#include <catch2/catch.hpp>

#include "decision/report/text_format.h"

using namespace ccld;
using namespace ccld::decision;
using namespace ccld::decision::report;

namespace {

Json verdict() {
  return Json::parse(R"({"time": "2023-11-14T22:13:40.000Z", "incident": 7, "class": "H3", "title": "Hardware-Fault", "state": "confirmed",
    "rules": "default", "job": "demo", "communicator": "0000000000000abc", "comm_name": "tp0", "rank_count": 8, "op_seq": 42,
    "operation": {"function": "AllReduce", "count": 1048576, "datatype": "float32", "reduction": "sum", "root": null,
                  "algorithm": "Ring", "protocol": "Simple", "channels": 2},
    "ranks": [3], "culprits": [{"rank": 3, "host": "node-a", "pid": 4711, "gpu": 3, "bus_id": "0000:10:00.0", "component": "link",
      "channel": 1, "peer": 4, "net": "mlx5_0", "lost_time_share": 0, "reason": "nothing arrives"}],
    "candidates": [], "victims": {"count": 7, "sample": [0, 1, 2, 4]}, "confidence": 0.95,
    "evidence": [{"rank": 4, "what": "step wanted on channel 1", "value": 133, "unit": "steps"},
                 {"rank": null, "what": "nothing moved", "value": 5000.25, "unit": "ms"}],
    "next_step": "look at the cable", "suspected_ms": 5000, "confirmed_ms": 15000, "located_ms": 5001.5, "resolved_ms": null,
    "onset_time": "2023-11-14T22:13:20.000Z"})");
}

}  // namespace

TEST_CASE("A verdict in words says what, when, who, why, who suffers and what is next") {
  CHECK(verdict_text(verdict()) == R"(Incident 7: H3 Hardware-Fault, confirmed (confidence 95 %)

What      AllReduce of 1,048,576 float32 (sum), Ring, Simple, 2 channels; operation 42 of communicator
          0000000000000abc "tp0", 8 ranks, job demo
When      all was well until 2023-11-14T22:13:20.000Z; suspected after 5.0 s; located after 5.0 s; confirmed
          after 15.0 s
Who       rank 3: host node-a, pid 4711, GPU 3 (0000:10:00.0), link with rank 4, channel 1, network device
          mlx5_0 - nothing arrives
Why       rank 4  step wanted on channel 1    133  steps
          all     nothing moved             5,000  ms
Victims   7 ranks suffer, among them 0-2, 4
Next      look at the cable
Rules     default
)");
}

TEST_CASE("A verdict without a culprit names the candidates") {
  Json v = verdict();
  v["culprits"] = Json::array();
  v["candidates"] = {1, 2, 3, 6};
  CHECK(verdict_text(v).find("Who       not singled out; candidates are ranks 1-3, 6\n") != std::string::npos);
  v["candidates"] = Json::array();
  CHECK(verdict_text(v).find("Who       not singled out yet\n") != std::string::npos);
}

TEST_CASE("A slow verdict says what the job would gain, in one line and in a column of the list") {
  Json v = verdict();
  CHECK(verdict_text(v).find("Gain") == std::string::npos);
  v["gain"] = {{"of", "iteration"}, {"now_ms", 530}, {"without_ms", 412}, {"share", 118.0 / 530}};
  CHECK(verdict_text(v).find("\nGain      iterations take 530 ms; without this 412 ms (22 % less)\n") != std::string::npos);
  CHECK(incident_list_text(Json::array({v})).find("AllReduce 42  22 %  rank 3 link") != std::string::npos);
  v["gain"] = {{"of", "operations compared"}, {"now_ms", 5200}, {"without_ms", 4160}, {"share", 0.2}};
  CHECK(verdict_text(v).find("\nGain      the operations compared take 5.2 s; without this 4.1 s (20 % less)\n") !=
        std::string::npos);
}

TEST_CASE("A verdict says which further communicators wait for the same cause") {
  Json v = verdict();
  v["victim_communicators"] = Json::parse(R"([
    {"communicator": "0000000000000001", "comm_name": "dp0", "rank_count": 4, "op_seq": 17},
    {"communicator": "0000000000000002", "comm_name": null, "rank_count": 2, "op_seq": null}])");
  v["victim_communicator_count"] = 5;
  CHECK(verdict_text(v).find("Victims   7 ranks suffer, among them 0-2, 4\n"
                             "          on further communicators: dp0 (4 ranks, operation 17), 0000000000000002 (2 ranks) and "
                             "3 more\n") != std::string::npos);
}

TEST_CASE("A circle of waits is told step by step") {
  Json v = verdict();
  v["cycle"] = Json::parse(R"([
    {"communicator": "0000000000000001", "comm_name": "dp0", "op_seq": 17, "rank": 2, "waits_for": 3, "host": "node-a", "pid": 10, "gpu": 0},
    {"communicator": "0000000000000002", "comm_name": null, "op_seq": null, "rank": 0, "waits_for": 1, "host": "node-b", "pid": 11, "gpu": 1}])");
  CHECK(verdict_text(v).find("Circle    rank 2 (node-a pid 10) is in operation 17 of communicator dp0 and waits for its rank 3\n"
                             "          rank 0 (node-b pid 11) is in Send or Recv of communicator 0000000000000002 and waits for its "
                             "rank 1\n") != std::string::npos);
}

TEST_CASE("A document that is not a verdict is an error of one kind") {
  CHECK_THROWS_AS(verdict_text(Json::parse(R"({"incident": "seven"})")), nlohmann::json::exception);
  CHECK_NOTHROW(verdict_text(Json::parse("{}")));
  CHECK_NOTHROW(verdict_text(Json::parse("[]")));
}

TEST_CASE("The list of incidents has one line each") {
  CHECK(incident_list_text(Json::array()) == "no incidents\n");
  const std::string list = incident_list_text(Json::array({verdict(), verdict()}));
  CHECK(std::count(list.begin(), list.end(), '\n') == 3);
  CHECK(list.find("rank 3 link on node-a") != std::string::npos);
}

TEST_CASE("Numbers, spans and ranks read well") {
  CHECK(grouped(uint64_t{0}) == "0");
  CHECK(grouped(uint64_t{999}) == "999");
  CHECK(grouped(uint64_t{1234567}) == "1,234,567");
  CHECK(grouped(28.25) == "28.25");
  CHECK(grouped(-1234.5) == "-1,234.5");
  CHECK(grouped(0.9999) == "1");
  CHECK(grouped(-0.0001) == "0");
  CHECK(measured(4657.253) == "4,657");
  CHECK(measured(92.496) == "92.5");
  CHECK(measured(9.11) == "9.11");
  CHECK(measured(-0.6337) == "-0.634");
  CHECK(measured(0) == "0");
  CHECK(span_text(0) == "0 ms");
  CHECK(span_text(999.9) == "999 ms");
  CHECK(span_text(12345) == "12.3 s");
  CHECK(span_text(245000) == "4 min 05 s");
  CHECK(span_text(12000000) == "3 h 20 min");
  CHECK(span_text(-1) == "0 ms");
  CHECK(ranks_text(Json::parse("[7, 0, 1, 2, 5]")) == "0-2, 5, 7");
  CHECK(wrapped("aa bb cc", 2, 7) == "aa bb\n  cc");
}
