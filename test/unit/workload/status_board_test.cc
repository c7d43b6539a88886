#include "test/support/workload/status_board.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <stdexcept>

using namespace ccld::workload;

TEST_CASE("What one process writes on the board another reads, whoever created it") {
  const std::string path = "/tmp/ccld-board-test-" + std::to_string(getpid());
  StatusBoard writer(path, 3), reader(path, 3);
  writer.slot(2).completed_round.store(17);
  writer.header().released_rounds.store(33);
  CHECK(reader.slot(2).completed_round.load() == 17);
  CHECK(reader.slot(1).completed_round.load() == 0);
  CHECK(reader.header().released_rounds.load() == 33);
  CHECK(reader.header().held_round.load() == 0);
  unlink(path.c_str());
}

TEST_CASE("A board that cannot be made names its path") {
  CHECK_THROWS_WITH(StatusBoard("/nonexistent/board", 2), Catch::Contains("/nonexistent/board"));
}
