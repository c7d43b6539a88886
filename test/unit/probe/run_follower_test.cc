#include "probe/agent/run_follower.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::probe {
namespace {

struct Told {
  struct End {
    uint32_t run;
    bool has_end;
    std::optional<uint32_t> send_steps;
  };
  std::vector<uint32_t> begun;
  std::vector<End> ended;
  uint32_t lost = 0;

  void run_begun(uint32_t, const abi::RoundBegin& begin) { begun.push_back(begin.run); }
  void run_ended(uint32_t, uint32_t run, const abi::RoundEnd* end, const abi::RoundCounts* counts) {
    ended.push_back({run, end != nullptr, counts != nullptr ? std::optional(counts->send_steps) : std::nullopt});
  }
  void runs_lost(uint32_t, uint32_t count) { lost += count; }
};

struct Scene {
  test::SyntheticFrame frame{1};
  RunFollower follower;
  Told told;

  void look(bool thorough = false) {
    const auto view = abi::FrameView::open(frame.memory(), frame.bytes(), nullptr);
    follower.follow(*view, 0, thorough, told);
  }
};

TEST_CASE("the rows of a kernel may be seen in any order") {
  // After each row that becomes visible, somebody looks, or nobody does.
  std::array<int, 3> order{0, 1, 2};
  do {
    for (unsigned looks = 0; looks < 8; ++looks) {
      for (const bool thorough : {false, true}) {
        CAPTURE(order, looks, thorough);
        Scene s;
        const std::array<std::function<void()>, 3> rows{[&] { s.frame.begin(0, 1, 7, 100); },
                                                        [&] { s.frame.count(0, 1, 42, 43); },
                                                        [&] { s.frame.end(0, 1, 200); }};
        for (unsigned i = 0; i < order.size(); ++i) {
          rows[static_cast<unsigned>(order[i])]();
          if ((looks >> i & 1) != 0) s.look(thorough);
        }
        s.look(thorough);
        REQUIRE(s.told.begun == std::vector<uint32_t>{1});
        REQUIRE(s.told.ended.size() == 1);
        CHECK(s.told.ended[0].has_end);
        CHECK(s.told.ended[0].send_steps == 42u);
        CHECK_FALSE(s.follower.open());
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("an end without counts is told in time") {
  Scene s;
  s.frame.begin(0, 1, 7, 100);
  s.frame.end(0, 1, 200);
  for (unsigned i = 1; i < counts_looks_max; ++i) {
    s.look();
    REQUIRE(s.told.ended.empty());
  }
  s.look();
  REQUIRE(s.told.ended.size() == 1);
  CHECK(s.told.ended[0].has_end);
  CHECK_FALSE(s.told.ended[0].send_steps.has_value());
}

TEST_CASE("the next kernel shows that nothing of the one before it is to come") {
  Scene s;
  s.frame.begin(0, 1, 7, 100);
  s.frame.end(0, 1, 200);
  s.look();
  REQUIRE(s.told.ended.empty());
  s.frame.begin(0, 2, 8, 300);
  s.frame.count(0, 2, 5, 5);
  s.frame.end(0, 2, 400);
  s.look();
  REQUIRE(s.told.ended.size() == 2);
  CHECK_FALSE(s.told.ended[0].send_steps.has_value());
  CHECK(s.told.ended[1].send_steps == 5u);
}

TEST_CASE("what an earlier kernel has awaited does not count for a later one") {
  Scene s;
  for (uint32_t run = 1; run <= 2 * counts_looks_max; ++run) {
    s.frame.begin(0, run, run, run * 100);
    s.frame.end(0, run, run * 100 + 50);
    s.look();
    REQUIRE(s.told.ended.size() == run - 1);
    s.frame.count(0, run, run, run);
    s.look();
    REQUIRE(s.told.ended.size() == run);
    CHECK(s.told.ended.back().send_steps == run);
  }
}

}  // namespace
}  // namespace ccld::probe
