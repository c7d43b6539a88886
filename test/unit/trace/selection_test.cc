#include "decision/trace/selection.h"

#include "test/unit/trace/jobs.h"

namespace ccld::test {

TEST_CASE("Ranks are given one by one and as ranges") {
  CHECK(*parse_ranks("0-7,12") == std::vector<RankRange>{{0, 7}, {12, 12}});
  for (const char* wrong : {"", ",", "1,", "-1", "1-", "a", "1-2-3", "0x1", " 1", "99999999999", "3-1"}) {
    INFO(wrong);
    const auto ranks = parse_ranks(wrong);
    CHECK(absl::IsInvalidArgument(ranks.status()));
    CHECK(ranks.status().message().substr(0, 9) == "--ranks: ");
  }
}

TEST_CASE("Ranks that are asked for must exist, and are shown once") {
  const Settings settings{};
  const Directory d = directory_of(settings, 8);
  CHECK(*ranks_asked(d, {{5, 6}, {0, 1}, {6, 7}}) == std::vector<int>{0, 1, 5, 6, 7});
  CHECK_FALSE(ranks_asked(d, {{7, 2'000'000'000}}).ok());
  CHECK_FALSE(ranks_asked(directory_of(settings, 600), {{0, 599}}).ok());
}

TEST_CASE("A small job is shown whole, of a large one its first ranks") {
  const Settings settings{};
  CHECK(ranks_by_default(directory_of(settings, 16), {}).size() == 16);
  const std::vector<int> first = ranks_by_default(directory_of(settings, 100), {});
  CHECK(first.size() == default_ranks_max);
  CHECK(first.back() == 15);
}

TEST_CASE("Of a large job with an incident its culprits, their peers and their neighbours are shown") {
  const Settings settings{};
  const Directory d = directory_of(settings, 100);
  Incident i;
  i.comm = world;
  i.culprits.emplace_back().rank = Rank{40};
  i.culprits.front().peer = Rank{70};
  i.candidates = {Rank{90}};
  CHECK(ranks_by_default(d, {i}) == std::vector<int>{39, 40, 41, 70, 90});
  for (int32_t rank = 0; rank < 64; ++rank) i.victim_sample.push_back(Rank{rank});
  const std::vector<int> many = ranks_by_default(d, {i});
  CHECK(many.size() == default_ranks_max);
  for (const int rank : {39, 40, 41, 70, 90}) CHECK(std::find(many.begin(), many.end(), rank) != many.end());
  i.comm = CommUid{5};  // never described
  CHECK(ranks_by_default(d, {i}).back() == 15);
}

}  // namespace ccld::test
