#include "decision/report/verdict_text.h"

#include <catch2/catch.hpp>

#include "decision/report/text_format.h"

using namespace ccld;
using namespace ccld::decision;
using namespace ccld::decision::report;

namespace {

Json verdict() {
  return Json::parse(R"({"time": "2023-11-14T22:13:40.000Z", "incident": 7, "class": "H3", "kind": "HANG", "title": "nothing arrives over link rank 3 -> rank 4", "state": "confirmed",
    "rules": "default", "job": "demo", "communicator": "0000000000000abc", "comm_name": "tp0", "rank_count": 8, "op_seq": 42,
    "operation": {"function": "AllReduce", "count": 1048576, "datatype": "float32", "reduction": "sum", "root": null,
                  "algorithm": "Ring", "protocol": "Simple", "channels": 2, "bytes": 4194304},
    "ranks": [3], "culprits": [{"rank": 3, "job_rank": 11, "host": "node-a", "pid": 4711, "gpu": 3, "bus_id": "0000:10:00.0", "component": "link",
      "channel": 1, "peer": 4, "peer_host": "node-b", "net": "mlx5_0", "lost_time_share": 0, "reason": "step 9 was sent and has not arrived"}],
    "candidates": [], "victims": {"count": 7, "sample": [0, 1, 2, 4]}, "confidence": 0.95,
    "evidence": [{"kind": "steps_posted", "rank": 3, "what": "its GPU posted for rank 4 on channel 1", "value": 133, "unit": "steps"},
                 {"kind": "still_for", "rank": null, "what": "nothing has moved on the communicator for", "value": 5000.25, "unit": "ms"},
                 {"kind": "not_measured", "rank": null, "what": "not measured: device API", "value": 8, "unit": "ranks"}],
    "waits": [{"communicator": null, "rank": 4, "waits_for": 3, "what": "step", "channel": 1, "step_wanted": 9, "step_posted": 8, "age_ms": 5000},
              {"communicator": null, "rank": 5, "waits_for": 4, "what": "step", "channel": 1, "step_wanted": 9, "step_posted": 8, "age_ms": 5000},
              {"communicator": null, "rank": 0, "waits_for": 5, "what": "step", "channel": 1, "step_wanted": 9, "step_posted": 8, "age_ms": 5000}],
    "commands": [{"host": "node-a", "command": "rdma statistic show link mlx5_0"}], "advice": null,
    "next_step": "look at the cable", "suspected_ms": 5000, "confirmed_ms": 15000, "located_ms": 5001.5, "resolved_ms": null,
    "onset_time": "2023-11-14T22:13:20.000Z"})");
}

// Lines are broken where they are full: every run of blanks and line feeds as one blank.
std::string flat(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (const char one = c == '\n' ? ' ' : c; one != ' ' || out.empty() || out.back() != ' ') out += one;
  return out;
}

}  // namespace

TEST_CASE("A hang in words: who, where, what, the proof, what is unknown, what to do, in 80 columns") {
  CHECK(verdict_text(verdict()) == R"(HANG, 20.0 s: nothing arrives over link rank 3 -> rank 4         confirmed, 95 %
Where    job demo, node-a -> node-b, pid 4711, GPU 3 (0000:10:00.0), network
         device mlx5_0, rank 3, in the job rank 11
What     AllReduce #42 (4 MiB) on tp0 (8 ranks). Step 9 was sent and has not
         arrived. 7 ranks wait, for example 0 -> 5 -> 4 -> 3
When     all was well until 2023-11-14T22:13:20.000Z; suspected and located
         after 5.0 s; confirmed after 15.0 s
Proof    Rank 3: its GPU posted for rank 4 on channel 1: 133 steps.
         Nothing has moved on the communicator for 5.0 s.
Unknown  device API of 8 ranks: not measured
Do       node-a$ rdma statistic show link mlx5_0
         look at the cable
Details  incident 7, class H3: ccld explain 7 --evidence
)");
}

TEST_CASE("With its evidence an incident has all numbers and the chain of waits") {
  const std::string text = verdict_text(verdict(), true);
  CHECK(flat(text).find("Numbers rank 3 its GPU posted for rank 4 on channel 1 133 steps all nothing") != std::string::npos);
  CHECK(flat(text).find("Waits rank 4 waits for rank 3: step 9, which has posted 8, channel 1, for 5.0 s rank 5") != std::string::npos);
  CHECK(text.find("Victims  7 ranks, among them 0-2, 4\n") != std::string::npos);
  CHECK(text.find("Details  incident 7, class H3\n") != std::string::npos);
}

TEST_CASE("A verdict without a culprit names the candidates") {
  Json v = verdict();
  v["culprits"] = Json::array();
  v["candidates"] = {1, 2, 3, 6};
  CHECK(flat(verdict_text(v)).find("Nobody is singled out; candidates are ranks 1-3, 6.") != std::string::npos);
  v["candidates"] = Json::array();
  CHECK(flat(verdict_text(v)).find("Nobody is singled out yet.") != std::string::npos);
}

TEST_CASE("A slow verdict says what it costs, what the job would gain, and each cause with its share") {
  Json v = verdict();
  CHECK(verdict_text(v).find("Impact") == std::string::npos);
  v["kind"] = "SLOW";
  v["class"] = "S2";
  v["title"] = "link rank 3 -> rank 4 is slow";
  v["culprits"][0]["lost_time_share"] = 0.85;
  v["culprits"][0]["reason"] = "1.4 steps wait on the wire to rank 4 on average";
  v["waits"] = Json::array();
  v["gain"] = {{"of", "iteration"}, {"now_ms", 530}, {"without_ms", 412}, {"share", 118.0 / 530}};
  v["stage"] = {{"iteration_usual_ms", 400}, {"iteration_now_ms", 530}};
  const std::string text = verdict_text(v);
  CHECK(text.find("SLOW: link rank 3 -> rank 4 is slow                              confirmed, 95 %\n") == 0);
  CHECK(text.find("\nImpact   Iterations take 530 ms, usually 400 ms; without this 412 ms. 7 ranks\n         wait.\n") != std::string::npos);
  CHECK(text.find("\nCause    85 % of the loss: 1.4 steps wait on the wire to rank 4 on average.\n") != std::string::npos);
  CHECK(flat(incident_list_text(Json::array({v}), columns_unlimited))
            .find("S2 22 % demo SLOW: link rank 3 -> rank 4 is slow") != std::string::npos);
  v["gain"] = {{"of", "operations compared"}, {"now_ms", 5200}, {"without_ms", 4160}, {"share", 0.2}};
  CHECK(verdict_text(v).find("\nImpact   The operations compared took 5.2 s; without this 4.1 s. 7 ranks wait.\n") !=
        std::string::npos);
}

TEST_CASE("A verdict says which further communicators wait for the same cause") {
  Json v = verdict();
  v["victim_communicators"] = Json::parse(R"([
    {"communicator": "0000000000000001", "comm_name": "dp0", "rank_count": 4, "op_seq": 17},
    {"communicator": "0000000000000002", "comm_name": null, "rank_count": 2, "op_seq": null}])");
  v["victim_communicator_count"] = 5;
  CHECK(verdict_text(v, true).find("Victims  7 ranks, among them 0-2, 4\n"
                                   "         communicators that wait for it: dp0 (4 ranks, operation 17),\n"
                                   "         0000000000000002 (2 ranks) and 3 more\n") != std::string::npos);
}

TEST_CASE("A circle of waits is told step by step") {
  Json v = verdict();
  v["cycle"] = Json::parse(R"([
    {"communicator": "0000000000000001", "comm_name": "dp0", "op_seq": 17, "rank": 2, "waits_for": 3, "host": "node-a", "pid": 10, "gpu": 0},
    {"communicator": "0000000000000002", "comm_name": null, "op_seq": null, "rank": 0, "waits_for": 1, "host": "node-b", "pid": 11, "gpu": 1}])");
  CHECK(verdict_text(v).find("Circle   rank 2 (node-a pid 10) is in operation 17 of communicator dp0 and waits\n"
                             "         for its rank 3\n"
                             "         rank 0 (node-b pid 11) is in Send or Recv of communicator\n"
                             "         0000000000000002 and waits for its rank 1\n") != std::string::npos);
}

TEST_CASE("A chain of waits ends at a culprit, and leaves out what a culprit waits for") {
  Json v = verdict();
  const auto wait = [&](int rank, int waits_for) { v["waits"].push_back({{"communicator", nullptr}, {"rank", rank}, {"waits_for", waits_for}, {"what", "step"}}); };
  // A ring without the links 3 -> 4 and 7 -> 0, along which nothing arrives.
  v["waits"] = Json::array();
  for (const int rank : {4, 5, 6, 7, 0, 1, 2, 3}) wait(rank, (rank + 7) % 8);
  v["culprits"].push_back(v["culprits"][0]);
  v["culprits"][1]["rank"] = 7;
  v["victims"]["count"] = 6;
  CHECK(flat(verdict_text(v)).find("6 ranks wait, for example 6 -> 5 -> 4 -> 3 When") != std::string::npos);
  v["victims"]["count"] = 3;
  CHECK(flat(verdict_text(v)).find("3 ranks wait: 6 -> 5 -> 4 -> 3 When") != std::string::npos);
  v["culprits"] = Json::array();  // nobody is singled out: no end
  CHECK(flat(verdict_text(v)).find("3 ranks wait. When") != std::string::npos);
  v["waits"] = Json::array();
  wait(1, 2), wait(2, 1);
  CHECK_NOTHROW(verdict_text(v));
}

TEST_CASE("A closed incident tells nobody to act") {
  Json v = verdict();
  v["state"] = "resolved";
  CHECK(verdict_text(v).find("\nDo       Nothing: it went away.\nDetails") != std::string::npos);
  v["state"] = "ended";
  v["next_step"] = "the service ended before the incident did";
  CHECK(verdict_text(v).find("\nDo       the service ended before the incident did\nDetails") != std::string::npos);
}

TEST_CASE("The age of an open hang counts up to the answer, of a closed one to its end") {
  Json v = verdict();
  v["now"] = "2023-11-14T22:14:20.000Z";
  CHECK(verdict_title(v).starts_with("HANG, 1 min 00 s: "));
  v["state"] = "resolved";
  CHECK(verdict_title(v).starts_with("HANG, 20.0 s: "));
  v["resolved_time"] = "2023-11-14T22:13:50.000Z";
  CHECK(verdict_title(v).starts_with("HANG, 30.0 s: "));
}

TEST_CASE("What happened is told in the order in which it did") {
  Json v = verdict();
  v["state"] = "resolved", v["suspected_ms"] = 3100, v["confirmed_ms"] = 3100, v["located_ms"] = 4600,
  v["resolved_ms"] = 6300;
  CHECK(flat(verdict_text(v)).find("suspected and confirmed after 3.1 s; located after 4.6 s; resolved after 6.3 s") !=
        std::string::npos);
}

TEST_CASE("What was slow from the beginning was never well") {
  Json v = verdict();
  v["kind"] = "SLOW";
  v["evidence"] = Json::parse(R"([{"kind": "since_start", "rank": null, "what": "it was so from the start, for", "value": 4.63, "unit": "s"}])");
  const std::string text = flat(verdict_text(v));
  CHECK(text.find("When slow since the service began to look; suspected and located after 5.0 s;") !=
        std::string::npos);
  CHECK(text.find("all was well") == std::string::npos);
  CHECK(text.find("Proof It was so from the start, for 4.6 s.") != std::string::npos);
}

TEST_CASE("Evidence that is a sentence reads as one") {
  Json v = verdict();
  v["evidence"] = Json::parse(R"([
    {"kind": "ranks_calling", "rank": 0, "what": "ranks that called AllReduce of 65,536 float32 as operation 32", "value": 7, "unit": "ranks"},
    {"kind": "ranks_calling", "rank": 4, "what": "ranks that called AllGather of 8,192 float32 as operation 32", "value": 1, "unit": "ranks"},
    {"kind": "waiters", "rank": 3, "channel": 1, "what": "wait for it directly on channel 1", "value": 2, "unit": "connection endpoints"}])");
  std::string text = flat(verdict_text(v));
  CHECK(text.find("7 ranks called AllReduce of 65,536 float32 as operation 32.") != std::string::npos);
  CHECK(text.find("1 rank called AllGather of 8,192 float32 as operation 32.") != std::string::npos);
  CHECK(text.find("2 connection endpoints wait directly for rank 3 on channel 1.") != std::string::npos);
  v["evidence"] = Json::parse(R"([
    {"kind": "waiters", "rank": 3, "channel": null, "what": "wait for it directly", "value": 1, "unit": "connection endpoints"},
    {"kind": "transfer_reference", "rank": null, "what": "it would take if every connection were as fast as the others", "value": 12.2, "unit": "ms"},
    {"kind": "also_seen", "rank": 4, "what": "also seen there: threads of the process that are stopped", "value": 1, "unit": "threads"},
    {"kind": "also_seen", "rank": 4, "what": "also seen there: the GPU's last XID", "value": 79, "unit": "XID", "time": "2026-11-21T12:16:54.929Z"}])");
  text = flat(verdict_text(v));
  CHECK(text.find("1 connection endpoint waits directly for rank 3.") != std::string::npos);
  CHECK(text.find("It would take 12.2 ms if every connection were as fast as the others.") != std::string::npos);
  CHECK(text.find("Also seen at rank 4: threads of the process that are stopped: 1 thread.") != std::string::npos);
  CHECK(text.find("Also seen at rank 4: the GPU's last XID: 79 XID, last at 2026-11-21 12:16:54Z.") != std::string::npos);
  v["evidence"] = Json::parse(R"x([
    {"kind": "calls_made", "rank": 2, "what": "operations called", "value": 30, "unit": "operations"},
    {"kind": "not_moved", "rank": 3, "what": "has moved no step on channel 1 for", "value": 3200, "unit": "ms"},
    {"kind": "waits_followed", "rank": null, "what": "waits that were followed to it", "value": 7, "unit": "connection endpoints"}])x");
  text = flat(verdict_text(v));
  CHECK(text.find("Rank 2 has called 30 operations. Rank 3 has moved no step on channel 1 for 3.2 s. The waits of 7 "
                  "connection endpoints lead there.") != std::string::npos);
  v["evidence"] = Json::parse(R"x([
    {"kind": "kernels_begun", "rank": 2, "what": "operations that its GPU has begun, by its frame", "value": 31, "unit": "operations"},
    {"kind": "telemetry_age", "rank": 2, "what": "since the last telemetry of its process", "value": 2300, "unit": "ms"},
    {"kind": "operation_age", "rank": 0, "op_seq": 32, "what": "in operation 32 for", "value": 2313, "unit": "ms"},
    {"kind": "not_measured", "rank": 2, "what": "not measured: GPU health (no NVML)", "value": 1, "unit": "ranks"}])x");
  text = flat(verdict_text(v));
  CHECK(text.find("Proof The GPU of rank 2 has begun 31 operations, by its probing frame. The process of rank 2 was "
                  "last heard 2.3 s ago. Rank 0 has "
                  "been in operation 32 for 2.3 s. "
                  "Unknown GPU health (no NVML) of rank 2: not measured Do") != std::string::npos);
  v["evidence"] = Json::parse(R"([
    {"kind": "steps_more_than_others", "rank": 3, "peer": 4, "what": "to rank 4 more steps are on the wire than on other connections", "value": 6.14, "unit": "steps"},
    {"kind": "transfer", "rank": null, "what": "the transfer of an operation takes", "value": 182, "unit": "ms"}])");
  CHECK(flat(verdict_text(v))
            .find("6.14 more steps are on the wire from rank 3 to rank 4 than on other connections. The transfer of an "
                  "operation takes 182 ms.") != std::string::npos);
}

TEST_CASE("A host that many ranks share is one cause with the sum of their shares") {
  Json v = verdict();
  v["kind"] = "SLOW";
  Json culprit = v["culprits"][0];
  culprit["component"] = "host", culprit["reason"] = "its host is short of processors", culprit["lost_time_share"] = 0.125, culprit["peer"] = nullptr;
  v["culprits"] = Json::array();
  for (int rank = 0; rank < 8; ++rank) culprit["rank"] = rank, v["culprits"].push_back(culprit);
  CHECK(flat(verdict_text(v)).find("Cause 100 % of the loss: host node-a is short of processors (8 ranks). When") != std::string::npos);
  for (Json& c : v["culprits"]) c["component"] = "gpu";
  CHECK(flat(verdict_text(v)).find("and 5 more When") != std::string::npos);
}

TEST_CASE("What a job, a host and a communicator are called does nothing to the terminal") {
  Json v = verdict();
  v["job"] = "a\x1b[2J", v["comm_name"] = "\xe2\x80\xae" "0pt", v["culprits"][0]["host"] = "h\x07", v["title"] = "rank 3 of \xc2\x9b";
  for (const std::string& text : {verdict_text(v), verdict_text(v, true), incident_list_text(Json::array({v}), 80)})
    for (const char* const bad : {"\x1b", "\xe2\x80\xae", "\x07", "\xc2\x9b"}) CHECK(text.find(bad) == std::string::npos);
}

TEST_CASE("A number that no integer holds is an error, one that is not whole is cut off") {
  for (const char* number : {"1e30", "-1e30", "1.8446744073709552e19"}) {
    const Json v = Json::parse(std::string(R"({"op_seq": )") + number + R"(, "ranks": [)" + number + "]}");
    CHECK_THROWS_AS(number_of(v, "op_seq"), nlohmann::json::exception);
    CHECK_THROWS_AS(integer_of(v["op_seq"]), nlohmann::json::exception);
    CHECK_THROWS_AS(ranks_text(v["ranks"]), nlohmann::json::exception);
  }
  CHECK(number_of({{"op_seq", 7.9}}, "op_seq") == 7);
  CHECK(integer_of(-7.9) == -7);
}

TEST_CASE("A document that is not a verdict is an error of one kind") {
  CHECK_THROWS_AS(verdict_text(Json::parse(R"({"incident": "seven"})")), nlohmann::json::exception);
  CHECK_NOTHROW(verdict_text(Json::parse("{}")));
  CHECK_NOTHROW(verdict_text(Json::parse("[]")));
}

TEST_CASE("The list of incidents has one line each") {
  CHECK(incident_list_text(Json::array(), 80) == "no incidents\n");
  CHECK(incident_list_text(Json::array({verdict()}), 80) ==
        "INCIDENT  STATE      SINCE                 WHAT\n"
        "       7  confirmed  2023-11-14 22:13:20Z  HANG: nothing arrives over link ran..\n");
  const std::string wide = incident_list_text(Json::array({verdict(), verdict()}), columns_unlimited);
  CHECK(std::count(wide.begin(), wide.end(), '\n') == 3);
  CHECK(wide.find("H3        -  demo  HANG: nothing arrives over link rank 3 -> rank 4\n") != std::string::npos);
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
