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
  CHECK(refusal("{") == "the request: not JSON");
  CHECK(refusal(R"({"sample_us": 500})") == "job is missing");
  CHECK(refusal(R"({"job": 7, "sample_us": 500})") == "job is not a text");
  CHECK(refusal(R"({"job": "a", "pid": -1, "sample_us": 500})").find("pid is not valid") == 0);
  CHECK(refusal(R"({"job": "a"})").find("nothing is asked for") == 0);
  CHECK(refusal(R"({"job": "a", "colour": 1})").find("'colour' is not known") == 0);
  CHECK(refusal(R"({"job": "a", "sample_us": 1})").find("sample_us=1 is not valid") == 0);
}

TEST_CASE("A hardware test names a job, a communicator and where its ranks meet") {
  const auto request = parse_validate_request(
      R"({"job": "demo", "communicator": "00000000000000ff", "meet": "node0:29611", "hold_s": 2.5})");
  REQUIRE(request.ok());
  CHECK(request->job == "demo");
  REQUIRE(request->validation.has_value());
  CHECK(request->validation->comm == CommUid(0xff));
  CHECK(request->validation->meet == "node0:29611");
  CHECK(request->validation->hold_ms == 2500);
}

TEST_CASE("A hardware test that cannot be is refused with the name of the field") {
  const auto with = [](const std::string& fields) {
    const auto request = parse_validate_request("{" + fields + "}");
    return request.ok() ? "accepted" : std::string(request.status().message());
  };
  const std::string job = R"("job": "a")", comm = R"("communicator": "00000000000000ff")", meet = R"("meet": "a:1")";
  CHECK(with(job + "," + comm + "," + meet) == "accepted");
  CHECK(with(comm + "," + meet) == "job is missing");
  CHECK(with(job + "," + meet) == "communicator is missing");
  CHECK(with(job + "," + comm) == "meet is missing");
  CHECK(with(job + "," + meet + R"(,"communicator": "dp0")") == "communicator is not 16 hexadecimal digits: 'dp0'");
  CHECK(with(job + "," + comm + R"(,"meet": "node0")") == "meet is not host:port: 'node0'");
  CHECK(with(job + "," + comm + "," + meet + R"(,"hold_s": 3600)") == "hold_s is not from 0.1 to 60: 3600");
  CHECK(with(job + "," + comm + "," + meet + R"(,"hold_s": "5")") == "hold_s is not from 0.1 to 60: 5");
  CHECK(with(job + "," + comm + "," + meet + R"(,"sample_us": 500)") == "there is no field 'sample_us'");
  CHECK(with(R"("job": 7)") == "job is not a text");
}

TEST_CASE("A hardware test goes to the probes of its job, and takes no number of a request to tune") {
  ControlDesk desk(1000);
  const auto nobody = [](const std::string&, absl::Span<const uint8_t>) { return false; };
  desk.heard(from("a", 1), "c1", 1, 1, nobody);
  desk.heard(from("a", 2, "other"), "c2", 1, 1, nobody);
  TuneRequest request;
  request.job = "demo";
  request.validation = ValidationWish{CommUid(0xff), "node0:29611", 5000};
  std::vector<std::string> reached;
  const TuneAnswer answer =
      desk.carry_out(request, [&](const std::string& connection, absl::Span<const uint8_t> message) {
        flatbuffers::Verifier verifier(message.data(), message.size());
        REQUIRE(wire::VerifyControlRequestBuffer(verifier));
        const wire::ControlRequest& said = *wire::GetControlRequest(message.data());
        CHECK(said.sequence() == 0);
        REQUIRE(said.validation() != nullptr);
        CHECK(said.validation()->comm_uid() == 0xff);
        CHECK(said.validation()->meet()->str() == "node0:29611");
        CHECK(said.validation()->hold_ms() == 5000);
        reached.push_back(connection);
        return true;
      });
  CHECK(reached == std::vector<std::string>{"c1"});
  CHECK((answer.asked == 1 && answer.sequence == 0));
}

TEST_CASE("A request goes to every probe it is meant for, on the connection of its newest batch") {
  ControlDesk desk(1000);
  const auto hear = [&desk](const Batch& batch, const char* connection, Nanoseconds now_ns) {
    desk.heard(batch, connection, now_ns, now_ns, [](const std::string&, absl::Span<const uint8_t>) {
      FAIL("nobody has asked");
      return false;
    });
  };
  hear(from("a", 1), "old", 1);
  hear(from("a", 1), "c1", 2);
  hear(from("a", 2), "c2", 2);
  hear(from("b", 3), "c3", 2);
  hear(from("b", 4, "other"), "c4", 2);
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

TEST_CASE("A batch that asks is told how many have come from its process, on its connection") {
  ControlDesk desk(1000);
  struct Answer {
    std::string connection;
    uint64_t session, batch_seq, batches;
  };
  std::vector<Answer> answers;
  const auto send = [&](const std::string& connection, absl::Span<const uint8_t> message) {
    flatbuffers::Verifier verifier(message.data(), message.size());
    REQUIRE(wire::VerifyControlRequestBuffer(verifier));
    const auto& answer = *wire::GetControlRequest(message.data());
    CHECK(answer.sequence() == 0);
    CHECK(answer.fields() == 0);
    REQUIRE(answer.acknowledgement() != nullptr);
    const auto& a = *answer.acknowledgement();
    answers.push_back({connection, a.session(), a.batch_seq(), a.batches()});
    return true;
  };
  const auto hear = [&](Batch batch, const char* connection, uint64_t batch_seq, bool asks, Nanoseconds realtime_ns) {
    batch.batch_seq = batch_seq;
    batch.acknowledge = asks;
    desk.heard(batch, connection, 1, realtime_ns, send);
  };
  hear(from("", 1), "c1", 4, true, 500);  // does not know what its host is called
  hear(from("a", 2), "c2", 9, true, 600);
  hear(from("a", 1), "c1", 5, false, 700);
  hear(from("a", 1), "c3", 8, true, 800);
  REQUIRE(answers.size() == 3);
  CHECK(answers[0].connection == "c1");
  CHECK(answers[0].session == 500);
  CHECK(answers[0].batch_seq == 4);
  CHECK(answers[0].batches == 1);
  CHECK(answers[1].session == 600);
  CHECK(answers[2].connection == "c3");
  CHECK(answers[2].session == 500);
  CHECK(answers[2].batch_seq == 8);
  CHECK(answers[2].batches == 3);
}

TEST_CASE("Another image of a process is counted as another session, without what the one before it had sent") {
  ControlDesk desk(1000);
  uint64_t session = 0, batches = 0;
  int answers = 0;
  const auto hear = [&](uint64_t batch_seq, uint64_t sent_ns, Nanoseconds realtime_ns) {
    Batch batch = from("a", 1);
    batch.batch_seq = batch_seq;
    batch.sent_monotonic_ns = sent_ns;
    batch.acknowledge = true;
    desk.heard(batch, "c", 1, realtime_ns, [&](const std::string&, absl::Span<const uint8_t> message) {
      const auto& a = *wire::GetControlRequest(message.data())->acknowledgement();
      session = a.session();
      batches = a.batches();
      ++answers;
      return true;
    });
  };
  for (uint64_t seq = 1; seq <= 9; ++seq) hear(seq, 100 + seq, 500);
  hear(12, 112, 500);
  hear(11, 111, 600);  // late, of a connection that was lost
  CHECK(session == 500);
  CHECK(batches == 11);
  hear(1, 200, 700);
  CHECK(session == 700);
  CHECK(batches == 1);
  REQUIRE(answers == 12);
  hear(13, 113, 800);
  CHECK(answers == 12);  // who asked is gone
  hear(2, 201, 900);
  CHECK(session == 700);
  CHECK(batches == 2);
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
