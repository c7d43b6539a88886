#include "test/support/workload/layout.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>

namespace ccld::workload {
namespace {

using Ranks = std::vector<int>;

TEST_CASE("Tensor groups are neighbours, data groups come next, pipelines reach farthest", "[layout]") {
  const Layout layout{2, 2, 2, 1};
  CHECK(layout.members(Group::tensor, 5) == Ranks{4, 5});
  CHECK(layout.members(Group::data, 5) == Ranks{5, 7});
  CHECK(layout.members(Group::pipeline, 5) == Ranks{1, 5});
  CHECK(layout.stage_of(5) == 1);
}

TEST_CASE("The groups of a kind divide the job, each rank in one of them", "[layout]") {
  const Layout layout{2, 2, 4, 2};
  for (const Group group : {Group::world, Group::tensor, Group::pipeline, Group::data, Group::expert}) {
    std::set<int> seen;
    for (int rank = 0; rank < layout.rank_count(); ++rank) {
      const Ranks members = layout.members(group, rank);
      CHECK(std::count(members.begin(), members.end(), rank) == 1);
      if (members.front() == rank) {
        for (const int member : members) CHECK(seen.insert(member).second);
      }
    }
    CHECK(int(seen.size()) == layout.rank_count());
  }
}

TEST_CASE("An expert group is part of a data group", "[layout]") {
  const Layout layout{2, 2, 4, 2};
  for (int rank = 0; rank < layout.rank_count(); ++rank) {
    const Ranks experts = layout.members(Group::expert, rank), data = layout.members(Group::data, rank);
    CHECK(experts.size() == 2);
    for (const int member : experts) CHECK(std::count(data.begin(), data.end(), member) == 1);
  }
}

TEST_CASE("A layout that does not fit is refused with its option", "[layout]") {
  CHECK(check({2, 2, 2, 1}, 8).empty());
  CHECK_THAT(check({2, 2, 2, 1}, 16), Catch::Contains("--ranks 16"));
  CHECK_THAT(check({1, 1, 8, 3}, 8), Catch::Contains("--ep"));
  CHECK_THAT(check({0, 1, 8, 1}, 8), Catch::Contains("at least 1"));
}

TEST_CASE("Groups are known by their short names", "[layout]") {
  CHECK(group_named("pp") == Group::pipeline);
  CHECK_THROWS_AS(group_named("cp"), std::invalid_argument);
}

}  // namespace
}  // namespace ccld::workload
