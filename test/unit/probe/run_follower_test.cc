#include "probe/agent/run_follower.h"

#include <catch2/catch.hpp>

#include <optional>
#include <vector>

#include "test/unit/schemas/synthetic_frame.h"

namespace ccld::probe {
namespace {

struct Told {
  struct End {
    uint32_t run;
    std::optional<uint64_t> duration_ns;
    std::optional<uint32_t> send_steps;
  };
  std::vector<uint32_t> begun;
  std::vector<End> ended;
  uint32_t lost = 0;
  uint64_t behind_the_loss_ns = 0;
  std::vector<RunSums> sums;

  void run_begun(uint32_t, const abi::RoundBegin& begin) { begun.push_back(begin.run); }
  void run_ended(uint32_t, uint32_t run, const abi::RoundEnd* end, const abi::RoundCounts* counts) {
    ended.push_back({run, end != nullptr ? std::optional(end->duration_ns) : std::nullopt,
                     counts != nullptr ? std::optional(counts->send_steps) : std::nullopt});
  }
  void runs_lost(uint32_t, uint32_t count, uint64_t device_ns) {
    lost += count;
    behind_the_loss_ns = device_ns;
  }
  void runs_summed(uint32_t, const RunSums& s) { sums.push_back(s); }
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

TEST_CASE("begin and end of a kernel may be seen in either order") {
  // Where the kernel before in this place was followed, and where there was none; somebody looks in between, or nobody.
  for (const uint32_t run : {1u, abi::rounds_max, abi::rounds_max + 1, 128 * abi::rounds_max}) {
    for (unsigned way = 0; way < 8; ++way) {
      const bool end_first = (way & 1) != 0, looks = (way & 2) != 0, thorough = (way & 4) != 0;
      CAPTURE(run, end_first, looks, thorough);
      Scene s;
      for (uint32_t before = 1; before < run; ++before) {
        s.frame.begin(0, before, before, 10);
        s.frame.end(0, before, 20);
        s.look(thorough);
      }
      s.told = {};
      s.frame.count(0, run, 42, 43);
      const auto begin = [&] { s.frame.begin(0, run, 7, 100); };
      const auto end = [&] { s.frame.end_after(0, run, 50); };
      end_first ? end() : begin();
      if (looks) s.look(thorough);
      CHECK(s.told.ended.empty());
      end_first ? begin() : end();
      s.look(thorough);
      REQUIRE(s.told.begun == std::vector<uint32_t>{run});
      REQUIRE(s.told.ended.size() == 1);
      CHECK(s.told.ended[0].duration_ns == 50u);
      CHECK(s.told.ended[0].send_steps == 42u);
      CHECK_FALSE(s.follower.open());
    }
  }
}

TEST_CASE("a kernel without an end is given up when its successor has ended, and is part of the sums") {
  Scene s;
  s.frame.begin(0, 1, 7, 100);
  s.frame.count(0, 1, 3, 3);
  s.look(true);
  s.frame.begin(0, 2, 8, 300);
  s.look(true);
  REQUIRE(s.told.ended.empty());
  s.frame.count(0, 2, 5, 5);
  s.frame.end(0, 2, 400);
  s.look();
  REQUIRE(s.told.ended.empty());  // it may still be on its way
  s.look(true);
  REQUIRE(s.told.ended.size() == 2);
  CHECK_FALSE(s.told.ended[0].duration_ns.has_value());
  // Which of the two has sent them is not known.
  CHECK_FALSE(s.told.ended[1].send_steps.has_value());
  REQUIRE(s.told.sums.size() == 1);
  CHECK((s.told.sums[0].runs == 2 && s.told.sums[0].send_steps == 8));
  s.frame.begin(0, 3, 9, 500);
  s.frame.count(0, 3, 6, 6);
  s.frame.end(0, 3, 600);
  s.look();
  REQUIRE(s.told.ended.size() == 3);
  CHECK(s.told.ended[2].send_steps == 6u);
}

// Kernels `first` to `last`, each 5 us after the one before it and 4 us long, sending as many steps as its number.
void run_kernels(Scene& s, uint32_t first, uint32_t last) {
  for (uint32_t run = first; run <= last; ++run)
    s.frame.run_kernel(1, run, uint64_t{run} * 5000, uint64_t{run} * 5000 + 4000, run, 2 * run);
}

TEST_CASE("of overwritten kernels nothing is lost but detail") {
  Scene s;
  run_kernels(s, 1, 10);
  s.look();
  REQUIRE(s.told.sums.empty());
  // 100 ms of them.
  run_kernels(s, 11, 20000);
  s.look();
  const uint32_t oldest = 20000 - abi::rounds_max + 1;
  CHECK(s.told.lost == oldest - 11);
  CHECK(s.told.behind_the_loss_ns == uint64_t{oldest} * 5000 + 4000);
  REQUIRE(s.told.sums.size() == 1);
  const RunSums& sums = s.told.sums[0];
  CHECK(sums.runs == oldest - 10);  // those lost and the one behind them
  CHECK(sums.send_steps == uint64_t{oldest} * (oldest + 1) / 2 - 55);
  CHECK(sums.recv_steps == uint32_t(uint64_t{oldest} * (oldest + 1) - 110));
  CHECK(sums.busy_known);
  CHECK(sums.busy_ns == sums.runs * 4000);
  // Everything behind them is told one by one.
  REQUIRE(s.told.ended.size() == 10 + abi::rounds_max);
  CHECK_FALSE(s.told.ended[10].send_steps.has_value());
  for (size_t i = 11; i < s.told.ended.size(); ++i) CHECK(s.told.ended[i].send_steps == s.told.ended[i].run);
  CHECK(s.told.ended.back().run == 20000);
  // And so is what follows.
  run_kernels(s, 20001, 20001);
  s.look();
  CHECK(s.told.ended.back().send_steps == 20001u);
  CHECK(s.told.sums.size() == 1);
}

TEST_CASE("a kernel that is overwritten while it is followed is part of the sums") {
  Scene s;
  run_kernels(s, 1, 1);
  s.frame.begin_kernel(1, 2, 10000);
  s.look();
  REQUIRE(s.follower.open());
  s.frame.end_kernel(1, 14000, 2, 4);
  run_kernels(s, 3, 3 + abi::rounds_max);
  s.look();
  REQUIRE(s.told.ended.size() >= 2);
  CHECK_FALSE(s.told.ended[1].duration_ns.has_value());
  REQUIRE(s.told.sums.size() == 1);
  CHECK(s.told.sums[0].runs == 3);  // 2, 3 and the oldest that is left
  CHECK(s.told.sums[0].send_steps == 2 + 3 + 4);
  CHECK(s.told.lost == 1);
}

TEST_CASE("the time of kernels that ran for longer than the sum can hold is not known") {
  Scene s;
  run_kernels(s, 1, 1);
  s.look();
  uint64_t now_ns = 1000000;
  for (uint32_t run = 2; run <= 2 * abi::rounds_max; ++run, now_ns += 100'000'000)
    s.frame.run_kernel(1, run, now_ns, now_ns + 90'000'000, 1, 1);
  s.look();
  REQUIRE(s.told.sums.size() == 1);
  CHECK(s.told.sums[0].runs == abi::rounds_max);
  CHECK(s.told.sums[0].send_steps == abi::rounds_max);
  CHECK_FALSE(s.told.sums[0].busy_known);
}

}  // namespace
}  // namespace ccld::probe
