#include "decision/validate/meeting.h"

#include <catch2/catch.hpp>
#include <thread>

#include "zmq.hpp"

namespace ccld::decision::validate {
namespace {

Hello hello(int rank, int ranks, const std::string& program = "p 1") {
  Hello h;
  h.program = program;
  h.ranks = ranks;
  h.member.rank = rank;
  h.member.host = "host" + std::to_string(rank);
  h.member.pid = 100;
  return h;
}

// A port that was free a moment ago.
std::string free_address() {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::router);
  socket.bind("tcp://127.0.0.1:*");
  return socket.get(zmq::sockopt::last_endpoint).substr(6);
}

struct Rank {
  Rank(const std::string& address, const Hello& h) : attendance(*Attendance::open(address, h, 10)) {}
  std::unique_ptr<Attendance> attendance;
};

TEST_CASE("All ranks that come are known, get each step, and are heard") {
  const std::string address = free_address();
  auto meeting = Meeting::open(address, 2, 10);
  REQUIRE(meeting.ok());
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r)
    ranks.emplace_back([r, &address] {
      Rank rank(address, hello(r, 2));
      for (auto step = rank.attendance->next(); step.ok() && step->kind != StepKind::end;
           step = rank.attendance->next()) {
        Answer a;
        a.rank = r;
        a.error = "heard";
        rank.attendance->answer(a);
      }
    });
  REQUIRE((*meeting)->wait_for_all("p 1").ok());
  CHECK((*meeting)->members()[1].host == "host1");
  Step s;
  s.kind = StepKind::gpu_check;
  const Answers answers = (*meeting)->perform(s);
  CHECK(answers.missing.empty());
  CHECK(answers.all.size() == 2);
  (*meeting)->perform({});
  for (std::thread& rank : ranks) rank.join();
}

TEST_CASE("Who does not come is named") {
  const std::string address = free_address();
  auto meeting = Meeting::open(address, 4, 3);
  REQUIRE(meeting.ok());
  Rank zero(address, hello(0, 4)), two(address, hello(2, 4));
  const absl::Status s = (*meeting)->wait_for_all("p 1");
  CHECK(s.message() == "ranks 1, 3 of 4 did not come to " + address + " within 3 s");
}

TEST_CASE("Two processes with one rank, another version and another number of ranks are refused by name") {
  const auto refused = [](const Hello& first, const Hello& second) {
    const std::string address = free_address();
    auto meeting = Meeting::open(address, 3, 10);
    Rank a(address, first), b(address, second);
    return std::string((*meeting)->wait_for_all("p 1").message());
  };
  CHECK(refused(hello(1, 3), hello(1, 3)) == "two processes say that they are rank 1: 100 on host1 and 100 on host1");
  CHECK(refused(hello(1, 3), hello(2, 3, "p 2")) == "rank 2 on host2 is p 2, rank 0 is p 1");
  CHECK(refused(hello(1, 3), hello(2, 4)) == "rank 2 on host2 expects 4 ranks, rank 0 3");
}

TEST_CASE("What a stranger sends is ignored") {
  const std::string address = free_address();
  auto meeting = Meeting::open(address, 1, 10);
  zmq::context_t context;
  zmq::socket_t stranger(context, zmq::socket_type::dealer);
  stranger.set(zmq::sockopt::linger, 0);
  stranger.connect("tcp://" + address);
  for (const std::string text : {"", "{", "hello"}) stranger.send(zmq::buffer(text), zmq::send_flags::none);
  stranger.send(zmq::buffer(std::string("a")), zmq::send_flags::sndmore);
  stranger.send(zmq::buffer(std::string("b")), zmq::send_flags::none);
  Rank zero(address, hello(0, 1));
  CHECK((*meeting)->wait_for_all("p 1").ok());
}

TEST_CASE("Addresses that are none are refused before anything waits") {
  CHECK(absl::IsInvalidArgument(Meeting::open("nowhere", 1, 1).status()));
  CHECK(absl::IsInvalidArgument(Meeting::open("127.0.0.1:0", 1, 1).status()));
  CHECK(absl::IsUnavailable(Meeting::open("203.0.113.7:1234", 1, 1).status()));  // not of this machine
}

}  // namespace
}  // namespace ccld::decision::validate
