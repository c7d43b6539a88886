#include "decision/server/read_turns.h"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

using namespace ccld::decision::server;

namespace {

constexpr absl::Duration long_patience = absl::Seconds(60), no_patience = absl::ZeroDuration();

std::vector<ReadTurns::Turn> all_of(ReadTurns& turns) {
  std::vector<ReadTurns::Turn> taken;
  while (taken.size() < ReadTurns::readers_max) {
    auto turn = turns.take();
    REQUIRE(turn.has_value());
    taken.push_back(*std::move(turn));
  }
  return taken;
}

}  // namespace

TEST_CASE("Who finds all turns taken reads when one ends") {
  ReadTurns turns(long_patience);
  std::vector<ReadTurns::Turn> taken = all_of(turns);
  bool read = false;
  std::thread next([&] { read = turns.take().has_value(); });
  taken.pop_back();
  next.join();
  CHECK(read);
}

TEST_CASE("While a read lasts longer than is waited for a turn nobody else begins, and after it everybody may") {
  ReadTurns turns(no_patience);
  {
    const auto hanging = turns.take();
    REQUIRE(hanging.has_value());
    CHECK_FALSE(turns.take().has_value());
  }
  CHECK(turns.take().has_value());
}

TEST_CASE("A turn is waited for no longer than promised") {
  ReadTurns turns(absl::Milliseconds(1));
  const std::vector<ReadTurns::Turn> taken = all_of(turns);
  CHECK_FALSE(turns.take().has_value());
}
