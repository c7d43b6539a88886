#include "decision/server/tune.h"

#include <catch2/catch.hpp>
#include <thread>

#include "schemas/abi/process.h"
#include "schemas/wire/control_generated.h"

namespace ccld::decision::server {

namespace {

Batch from(const std::string& host, uint32_t pid, const std::string& job = "demo") {
  Batch b;
  b.process = {host, "boot", pid, 0, 1};
  b.job = job;
  return b;
}

std::string refusal(const std::string& body) {
  const auto request = parse_tune_request(body);
  REQUIRE_FALSE(request.ok());
  return std::string(request.status().message());
}

}  // namespace

TEST_CASE("A request names a job, perhaps a host and a process, and what is wished") {
  const auto request = parse_tune_request(
      R"({"job": "demo", "host": "a", "pid": 7, "running": false, "sample_us": 500, "log": "info"})");
  REQUIRE(request.ok());
  CHECK(request->job == "demo");
  CHECK(request->host == "a");
  CHECK(request->pid == 7u);
  CHECK(request->wishes.fields == (abi::control_running | abi::control_sample_us | abi::control_log));
  CHECK_FALSE(request->wishes.running);
  CHECK(request->wishes.sample_us == 500);
}

TEST_CASE("A request that cannot be is refused with the name of the field") {
  CHECK(refusal("[]") == "the request is not a JSON object");
  CHECK(refusal("{") == "the request is not a JSON object");
  CHECK(refusal(R"({"sample_us": 500})") == "job is missing");
  CHECK(refusal(R"({"job": 7, "sample_us": 500})") == "job is not a text");
  CHECK(refusal(R"({"job": "a", "pid": -1, "sample_us": 500})").find("pid is not valid") == 0);
  CHECK(refusal(R"({"job": "a"})").find("nothing is asked for") == 0);
  CHECK(refusal(R"({"job": "a", "colour": 1})").find("'colour' is not known") == 0);
  CHECK(refusal(R"({"job": "a", "sample_us": 1})").find("sample_us=1 is not valid") == 0);
}

TEST_CASE("A request goes to every probe it is meant for, on the connection of its newest batch") {
  ControlDesk desk(1000);
  desk.heard(from("a", 1), "old", 1);
  desk.heard(from("a", 1), "c1", 2);
  desk.heard(from("a", 2), "c2", 2);
  desk.heard(from("b", 3), "c3", 2);
  desk.heard(from("b", 4, "other"), "c4", 2);
  std::vector<std::string> reached;
  uint64_t sequence = 0;
  const auto send = [&](const std::string& connection, absl::Span<const uint8_t> message) {
    flatbuffers::Verifier verifier(message.data(), message.size());
    REQUIRE(wire::VerifyControlRequestBuffer(verifier));
    const auto& request = *wire::GetControlRequest(message.data());
    CHECK(request.fields() == abi::control_sample_us);
    CHECK(request.sample_us() == 500);
    sequence = request.sequence();
    reached.push_back(connection);
    return connection != "c2";  // gone
  };
  TuneRequest request;
  request.job = "demo";
  REQUIRE(set_wish(request.wishes, "sample_us=500").ok());
  TuneAnswer answer = desk.carry_out(request, send);
  CHECK(reached == std::vector<std::string>{"c1", "c2", "c3"});
  CHECK(answer.matched == 3);
  CHECK(answer.asked == 2);
  CHECK(answer.sequence == sequence);
  CHECK(answer.sequence > 1000);
  reached.clear();
  request.host = "a";
  request.pid = 1;
  CHECK(desk.carry_out(request, send).asked == 1);
  desk.forget(3);
  CHECK(desk.carry_out(request, send).matched == 0);
}

TEST_CASE("A request waits for the analysis thread, and is not carried out after nobody waits for it any more") {
  TuneQueue queue;
  TuneRequest request;
  request.job = "demo";
  CHECK_FALSE(queue.ask(request, absl::Milliseconds(1)).ok());
  int carried_out = 0;
  const auto carry_out = [&](const TuneRequest&) {
    ++carried_out;
    return TuneAnswer{7, 2, 2};
  };
  queue.serve(carry_out);
  CHECK(carried_out == 0);
  absl::StatusOr<TuneAnswer> answer;
  std::thread client([&] { answer = queue.ask(request, absl::Seconds(10)); });
  while (carried_out == 0) queue.serve(carry_out);
  client.join();
  REQUIRE(answer.ok());
  CHECK(answer->sequence == 7);
}

}  // namespace ccld::decision::server
