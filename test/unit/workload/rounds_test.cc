#include "test/support/workload/rounds.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>

using namespace ccld::workload;

namespace {

struct Job {
  Job() : path("/tmp/ccld-rounds-test-" + std::to_string(getpid())), board(path, 2) { options.rank_count = 2; }
  ~Job() { unlink(path.c_str()); }
  std::string path;
  Options options;
  StatusBoard board;
};

}  // namespace

TEST_CASE("As many rounds are released as are planned") {
  Job job;
  Rounds rounds(job.options, job.board, 3);
  CHECK(rounds.released(3));
  CHECK_FALSE(rounds.released(4));
}

TEST_CASE("A rank waits in front of a round that the launcher holds, and not before an earlier one") {
  Job job;
  job.board.header().held_round.store(2);
  Rounds rounds(job.options, job.board, 3);
  CHECK(rounds.released(1));
  std::future<bool> second = std::async(std::launch::async, [&] { return rounds.released(2); });
  CHECK(second.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  job.board.header().held_round.store(0);
  CHECK(second.get());
}

TEST_CASE("When the launcher has enough, no round is released but those that others may have begun") {
  Job job;
  job.options.seconds = 3600;
  Rounds rounds(job.options, job.board, 3);
  REQUIRE(rounds.released(1));
  const uint64_t released = job.board.header().released_rounds.load();
  job.board.header().enough.store(1);
  for (uint64_t round = 2; round <= released; ++round) CHECK(rounds.released(round));
  CHECK_FALSE(rounds.released(released + 1));
}
