#include "decision/report/status_json.h"

#include <catch2/catch.hpp>

#include "decision/report/status_pages.h"
#include "decision/report/status_text.h"

namespace ccld::decision {

using namespace report;

namespace {

Snapshot snapshot() {
  Snapshot s;
  s.now_ns = 100 * ns_per_s;
  s.started_ns = 40 * ns_per_s;
  s.silent_ns = 5 * ns_per_s;
  s.ingest.batches = 1234;
  s.ingest.lost_batches = 2;
  s.ingest.rejected[static_cast<size_t>(ingest::RejectReason::structure)] = 3;
  s.ingest_errors = {{"structure", "batch is truncated or damaged", 3, s.now_ns, s.now_ns}};
  CommStatus comm;
  comm.comm = CommUid(0xabc);
  comm.job = "demo";
  comm.name = "tp0";
  comm.rank_count = 2;
  comm.ranks_seen = 2;
  comm.entered_max = OpSeq(42);
  comm.completed_min = OpSeq(41);
  comm.in_flight = true;
  comm.oldest_op = OpSeq(42);
  comm.oldest_age_ns = 12'345 * ns_per_ms;
  comm.oldest_signature = {1024, -1, abi::Function::all_reduce, abi::Datatype::float32, abi::Reduction::sum, abi::Algorithm::ring,
                           abi::Protocol::simple, 0, 2};
  for (int r = 0; r < 2; ++r) {
    RankStatus rank;
    rank.rank = Rank(r);
    rank.host = "node-a";
    rank.pid = 4711u + static_cast<uint32_t>(r);
    rank.up = true;
    rank.telemetry_age_ns = r == 0 ? 200 * ns_per_ms : 9 * ns_per_s;
    rank.process_state = r == 0 ? '?' : 'T';
    comm.ranks.push_back(rank);
    ProcessStatus process;
    process.process = {"node-a", "boot", rank.pid, 0, 1};
    process.job = "demo";
    process.telemetry_age_ns = rank.telemetry_age_ns;
    s.status.processes.push_back(process);
  }
  s.status.communicators = {comm};
  s.status.incidents_open = 1;
  Incident incident;
  incident.id = 3;
  incident.fault = FaultClass::h1_not_entered;
  incident.state = VerdictState::suspected;
  s.incidents = {incident};
  return s;
}

bool has_text(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("The short status names what is in flight and only the silent processes") {
  const Json status = status_json(snapshot(), false);
  CHECK(status["uptime_ms"] == 60000);
  CHECK(status["process_count"] == 2);
  CHECK(status["silent_process_count"] == 1);
  REQUIRE(status["processes"].size() == 1);
  CHECK(status["processes"][0]["pid"] == 4712);
  const Json& comm = status["communicators"][0];
  CHECK(comm["communicator"] == "0000000000000abc");
  CHECK(comm["in_flight"]["op_seq"] == 42);
  CHECK(comm["in_flight"]["age_ms"] == 12345);
  CHECK(comm["in_flight"]["operation"]["function"] == "AllReduce");
  CHECK_FALSE(comm.contains("ranks"));
  CHECK(status["ingest"]["rejected"]["structure"] == 3);
  CHECK(status["ingest"]["rejected_total"] == 3);
}

TEST_CASE("The status says who may send and ask, and who was turned away") {
  Snapshot s = snapshot();
  CHECK(status_json(s, false)["access"]["telemetry"] == "anybody");
  CHECK(status_json(s, false)["access"]["http"] == "anybody");
  s.access = {.telemetry_keys = true, .http_tokens = true, .http_tls = true, .door = {.admitted = 7, .refused = {1, 2, 3, 4}, .keys = 5}};
  s.access.door_errors = {{"door key", "connection refused (key): a client", 1, 0, 0}};
  const Json status = status_json(s, false);
  CHECK(status["access"]["telemetry"] == "keys");
  CHECK(status["access"]["http"] == "tokens");
  CHECK(status["access"]["tls"] == true);
  CHECK(status["access"]["keys"] == 5);
  CHECK(status["access"]["admitted"] == 7);
  CHECK(status["access"]["refused_total"] == 10);
  CHECK(status["access"]["refused"]["service_key"] == 3);
  CHECK(status["ingest"]["errors"].back()["error"] == "connection refused (key): a client");
}

TEST_CASE("The long status has every rank and process") {
  const Json status = status_json(snapshot(), true);
  CHECK(status["processes"].size() == 2);
  const Json& ranks = status["communicators"][0]["ranks"];
  REQUIRE(ranks.size() == 2);
  CHECK(ranks[0]["silent"] == false);
  CHECK(ranks[0]["process_state"].is_null());
  CHECK(ranks[1]["silent"] == true);
  CHECK(ranks[1]["process_state"] == "T");
}

TEST_CASE("A communicator with nothing in flight says so") {
  Snapshot s = snapshot();
  s.status.communicators[0].in_flight = false;
  CHECK(status_json(s, false)["communicators"][0]["in_flight"].is_null());
}

TEST_CASE("What is not measured is said by name, and never as something that stands still") {
  Snapshot s = snapshot();
  s.status.communicators[0].hidden = abi::hidden_gin | abi::hidden_pxn;
  s.status.communicators[0].in_flight = false;
  const Json status = status_json(s, true);
  CHECK(status["communicators"][0]["not_measured"] == Json({"GIN", "PXN"}));
  CHECK(has_text(status_text(status, {.ranks = false}), "not measured: GIN, on 1 communicator\n"));
  CHECK(has_text(status_text(status, {.ranks = false}), "not measured: PXN, on 1 communicator\n"));
  CHECK(status_json(snapshot(), true)["communicators"][0]["not_measured"].empty());
}

TEST_CASE("The status table shows operations in flight, silence and telemetry problems") {
  const std::string text = status_text(status_json(snapshot(), true), {.ranks = true});
  CHECK(has_text(text, "1 open incident (ccld explain)"));
  CHECK(has_text(text, "2 processes (1 silent), 1,234 batches, 2 lost, 3 rejected"));
  CHECK(has_text(text, "  42  12.3 s  AllReduce of 1,024 float32 (sum), Ring, Simple, 2 channels"));
  CHECK(has_text(text, "stopped, silent"));
  CHECK(has_text(text, "SILENT PROCESS"));
  CHECK(has_text(text, "batch is truncated or damaged"));
  CHECK_FALSE(has_text(status_text(status_json(snapshot(), false), {.ranks = false}), "stopped"));
}

TEST_CASE("A process that ended its communicators before it fell silent has ended, and so has a job of such processes") {
  Snapshot s = snapshot();
  s.incidents.clear();
  s.status.communicators.clear();
  s.status.processes[1].has_finished = true;
  Json status = status_json(s, true);
  CHECK(status["silent_process_count"] == 0);
  CHECK(status["ended_process_count"] == 1);
  CHECK(status["processes"][1]["silent"] == false);
  CHECK(status["processes"][1]["ended"] == true);
  CHECK(status["jobs"][0]["state"] == "idle");
  CHECK(status_json(s, false)["processes"].empty());

  s.status.processes[0].has_finished = true;
  CHECK(status_json(s, true)["ended_process_count"] == 1);  // it still talks
  s.status.processes[0].telemetry_age_ns = 9 * ns_per_s;
  status = status_json(s, true);
  CHECK(status["jobs"][0]["state"] == "ended");
  CHECK(status["jobs"][0]["ended_process_count"] == 2);
  const std::string text = status_text(status, {.ranks = false});
  CHECK(has_text(text, "2 processes (2 ended), 1,234 batches"));
  CHECK_FALSE(has_text(text, "SILENT PROCESS"));
}

TEST_CASE("The status of a service that heard of nobody says what may be wrong") {
  const std::string text = status_text(status_json(Snapshot{}, false), {.ranks = false});
  CHECK(has_text(text, "no communicators"));
  CHECK(has_text(text, "NCCL_PROBE_ENDPOINT"));
}

TEST_CASE("What the query API refused for want of room is told below the table, by reason in the document") {
  Snapshot s = snapshot();
  s.http[HttpRefusal::slow] = 7;
  CHECK_FALSE(has_text(status_text(status_json(s, false), {.ranks = false}), "query API"));
  s.http[HttpRefusal::no_room] = 3;
  s.http[HttpRefusal::pushed_out] = 1;
  const Json status = status_json(s, false);
  CHECK(status["http"]["refused_total"] == 11);
  CHECK(status["http"]["refused"] == Json{{"no_room", 3}, {"pushed_out", 1}, {"slow", 7}, {"too_long", 0}});
  CHECK(has_text(status_text(status, {.ranks = false}), "query API: 4 connections were refused, for too many waited"));
}

TEST_CASE("A communicator initialization shows its stages, who is missing, and why it failed") {
  Snapshot s = snapshot();
  InitStatus init;
  init.job = "demo";
  init.comm_hash = 0xfeed;
  init.rank_count = 5;
  init.age_ns = 3 * ns_per_s;
  init.failed = true;
  init.ranks = {{Rank(0), "node-a", 1, abi::InitStage::bootstrapped, 0, 0}, {Rank(1), "node-a", 2, abi::InitStage::failed, 0, 6}};
  init.never_heard_count = 3;
  init.never_heard = {Rank(2), Rank(3), Rank(4)};
  s.status.inits = {init};
  const Json status = status_json(s, false);
  CHECK(status["initializations"][0]["ranks"][0]["stage"] == "bootstrapped");
  CHECK(status["initializations"][0]["ranks"][0]["result"].is_null());
  CHECK(status["initializations"][0]["ranks"][1]["result"] == 6);
  const std::string text = status_text(status, {.ranks = false});
  CHECK(has_text(text, "communicator initialization, hash 000000000000feed, 5 ranks, job demo, FAILED, begun 3.0 s ago"));
  CHECK(has_text(text, "  failed with ncclResult_t 6: 1 rank: 1\n"));
  CHECK(has_text(text, "  never heard of: 3 ranks: 2-4\n"));
}

TEST_CASE("Calls in flight, replays, stopped probes and stuck queues show where people look") {
  Snapshot s = snapshot();
  CommStatus& comm = s.status.communicators[0];
  comm.in_flight = false;
  comm.p2p_in_flight = 2;
  comm.p2p_age_ns = 5 * ns_per_s;
  comm.ranks[0].replay = {OpSeq(7), 3};
  comm.ranks[1].watched = false;
  s.status.processes[1].probe_stopped = true;
  s.status.processes[1].control = ControlState{17, abi::control_endpoint, false, 500, 2, 3000, 1000, "tcp://x"};
  NetQueue queue;
  queue.in_flight = 4;
  queue.post_age_ms = queue.complete_age_ms = 9000;
  s.status.processes[0].net_queues.assign({queue});
  s.status.processes[0].net = {1, 1, 4};
  const Json status = status_json(s, true);
  CHECK(status["communicators"][0]["ranks"][0]["replay"]["replay"] == 3);
  CHECK(status["processes"][1]["control"]["refused"] == Json::parse(R"(["endpoint"])"));
  CHECK(status["processes"][0]["net_queues"][0]["stuck"] == true);
  const std::string text = status_text(status, {.ranks = true});
  CHECK(has_text(text, "5.0 s  2 Sends and Recvs"));
  CHECK(has_text(text, "in replay 3 of operation 7"));
  CHECK(has_text(text, "probe stopped"));
  CHECK(has_text(text, "1 probe was stopped by an operator"));
  CHECK(has_text(text, "network: 1 queue with 4 requests in flight, 1 of them without a completion for long"));
  CHECK(has_text(text, "TUNED PROCESS"));
  CHECK(tune_json(s, 17)["answered"] == 1);
  CHECK(tune_json(s, 17)["refused"][0]["fields"][0] == "endpoint");
  CHECK(tune_json(s, 18)["answered"] == 0);
}

TEST_CASE("Metrics of processes show by name, also where a value comes with and without an instance") {
  Snapshot s = snapshot();
  const Metrics metrics{{{abi::MetricId::gpu_xid_last, "", 1}, {abi::MetricId::gpu_xid_last, "0000:10:00.0", 79}}};
  s.status.processes[0].metrics = std::make_shared<const MetricTable>(merged(nullptr, metrics, 1));
  CHECK(status_json(s, true)["processes"][0]["metrics"]["gpu_xid_last"] == 1);
}

}  // namespace ccld::decision
