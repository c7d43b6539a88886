#include "decision/server/acknowledge.h"

#include <catch2/catch.hpp>

#include "decision/history/reader.h"
#include "test/unit/history/verdicts.h"

namespace ccld::test {
namespace {

using server::acknowledge;
using server::parse_acknowledge_request;
using server::Reporter;
using server::VerdictWriter;

constexpr absl::Duration timeout = absl::Seconds(60);

Incident incident(uint64_t id, VerdictState state) {
  Incident i;
  i.id = id;
  i.run = "first";
  i.revision = 1;
  i.state = state;
  i.job = "demo";
  i.onset_ns = i.suspected_ns = 1;
  return i;
}

report::Snapshot snapshot_of(std::vector<Incident> incidents) {
  report::Snapshot s;
  s.incidents = std::move(incidents);
  return s;
}

std::string refusal(const std::string& body) { return std::string(parse_acknowledge_request(body).status().message()); }

}  // namespace

TEST_CASE("A request to acknowledge says who, perhaps a note, or that it is undone") {
  const auto request = parse_acknowledge_request(R"({"by": " alice ", "note": "swapping the cable"})");
  REQUIRE(request.ok());
  CHECK(request->by == "alice");
  CHECK(request->note == "swapping the cable");
  CHECK_FALSE(request->undo);
  CHECK(parse_acknowledge_request(R"({"undo": true})")->undo);
  CHECK(refusal("[]") == "the request is not a JSON object");
  CHECK(refusal("{}") == "by is missing: who is on it");
  CHECK(refusal(R"({"by": "  "})") == "by is missing: who is on it");
  CHECK(refusal(R"({"by": 7})") == "by is not a text");
  CHECK(refusal(R"({"by": "a", "undo": 1})") == "undo is not true or false");
  CHECK(refusal(R"({"by": "a", "node": "x"})") == "field 'node' is not known here");
  CHECK(refusal(Json({{"by", std::string(65, 'x')}}).dump()) == "by is longer than 64 bytes");
  CHECK(refusal(Json({{"by", "a"}, {"note", std::string(501, 'x')}}).dump()) == "note is longer than 500 bytes");
}

TEST_CASE("What was acknowledged is on the disk when the answer comes, and in the next answers") {
  const Folder folder;
  auto history = History::open({.folder = folder.file("state"), .run = run_named("first"), .limits = {.bytes_max = 1 << 30, .age_max_ms = ms_per_day}}, start_ms);
  REQUIRE(history.ok());
  const std::string path = (*history)->path();
  Reporter reporter(*VerdictWriter::open("/dev/null"), *std::move(history), {});
  const auto snapshot = snapshot_of({incident(1, VerdictState::confirmed), incident(2, VerdictState::resolved)});
  reporter.report(snapshot.incidents, 5, start_ms * ns_per_ms);

  const auto done = acknowledge(1, {.by = "alice", .note = "mine"}, start_ms, snapshot, reporter, timeout);
  INFO(done.status().message());
  REQUIRE(done.ok());
  CHECK((*done)["kept"] == true);
  CHECK(HistoryReader::open(path)->newest(1).value()["acknowledged"]["note"] == "mine");
  CHECK(reporter.book().acknowledgements().at(1).by == "alice");

  CHECK(absl::IsNotFound(acknowledge(7, {.by = "alice"}, start_ms, snapshot, reporter, timeout).status()));
  const auto closed = acknowledge(2, {.by = "alice"}, start_ms, snapshot, reporter, timeout).status();
  CHECK(absl::IsFailedPrecondition(closed));
  CHECK(closed.message() == "incident 2 is resolved: there is nothing to acknowledge any more");

  REQUIRE(acknowledge(1, {.undo = true}, start_ms, snapshot, reporter, timeout).ok());
  CHECK(HistoryReader::open(path)->newest(1).value()["acknowledged"].is_null());
  CHECK(acknowledge(1, {.undo = true}, start_ms, snapshot, reporter, timeout).status().message() ==
        "incident 1 is not acknowledged");
  reporter.finish();
  CHECK(absl::IsUnavailable(acknowledge(1, {.by = "alice"}, start_ms, snapshot, reporter, timeout).status()));
}

TEST_CASE("Without a history an acknowledgement lasts as long as the service, and the answer says so") {
  Reporter reporter(*VerdictWriter::open("/dev/null"), nullptr, {});
  const auto snapshot = snapshot_of({incident(1, VerdictState::suspected)});
  const auto done = acknowledge(1, {.by = "alice"}, start_ms, snapshot, reporter, timeout);
  REQUIRE(done.ok());
  CHECK((*done)["kept"] == false);
  CHECK(reporter.book().acknowledgements().contains(1));
}

TEST_CASE("Of very many acknowledgements those of the newest incidents stay in memory") {
  server::OperatorBook book;
  for (uint64_t id = 1; id <= server::OperatorBook::acknowledgements_max + 1; ++id) book.acknowledge(id, {});
  CHECK(book.acknowledgements().size() == server::OperatorBook::acknowledgements_max);
  CHECK_FALSE(book.acknowledgements().contains(1));
}

}  // namespace ccld::test
