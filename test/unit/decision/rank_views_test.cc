// What is seen of the ranks of a communicator, of which few may have spoken.
#include <catch2/catch.hpp>

#include <vector>

#include "decision/detect/rank_views.h"

namespace ccld::decision {
namespace {

constexpr size_t claimed = 262'144;

bool unknown(const RankProgress& p) { return p.life == Life::unknown; }

}  // namespace

TEST_CASE("Ranks of which nobody has spoken are all alike, and take no room") {
  RankViews ranks(claimed);
  ranks.at(200'000) = {Progress::begun, Life::well, true};
  CHECK(ranks.size() == claimed);
  CHECK(ranks.slots() <= 3 * RankPages::page_ranks);
  CHECK(ranks[200'000].progress == Progress::begun);
  for (size_t rank : {size_t{0}, size_t{199'999}, size_t{200'001}, claimed - 1}) CHECK(unknown(ranks[rank]));
  CHECK(ranks.count(unknown) == claimed - 1);
  CHECK(ranks.any([](const RankProgress& p) { return p.own_word; }));
}

TEST_CASE("What is said of all ranks holds for those of which nobody has spoken, too") {
  RankViews ranks(claimed);
  ranks.at(7).progress = Progress::done;
  ranks.change([](Rank rank, RankProgress& p) {
    if (rank != Rank{7}) p.progress = Progress::begun;
  });
  CHECK(ranks.count([](const RankProgress& p) { return p.progress == Progress::begun; }) == claimed - 1);
  CHECK(ranks[claimed - 1].progress == Progress::begun);
  CHECK(ranks[7].progress == Progress::done);
  CHECK(unknown(ranks.at(claimed - 1)));  // now that it has room
  CHECK(ranks[claimed - 1].progress == Progress::begun);
}

TEST_CASE("Ranks are visited in their order, none beyond the last") {
  RankViews ranks(130);
  for (size_t rank : {size_t{129}, size_t{3}}) ranks.at(rank).life = Life::well;
  std::vector<int32_t> visited;
  ranks.visit([&](Rank rank, const RankProgress& p) {
    if (!unknown(p)) visited.push_back(rank.value);
    CHECK(rank.value < 130);
  });
  CHECK(visited == std::vector<int32_t>{3, 129});
}

}  // namespace ccld::decision
