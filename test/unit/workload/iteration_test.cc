#include "test/support/workload/iteration.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

namespace ccld::workload {
namespace {

// Runs the lists of all ranks against each other, one stream each, every step waiting for its partners. Returns whether
// all end.
bool fits(const Layout& layout, std::vector<std::vector<Step>> lists) {
  std::vector<size_t> next(lists.size(), 0);
  const auto step_of = [&](int rank) -> const Step* {
    auto& at = next[size_t(rank)];
    const auto& list = lists[size_t(rank)];
    while (at < list.size() && list[at].kind == StepKind::compute) ++at;
    return at < list.size() ? &list[at] : nullptr;
  };
  const auto partners = [&](int rank, const Step& step) {
    const std::vector<int> members = layout.members(step.group, rank);
    if (step.kind == StepKind::send || step.kind == StepKind::recv) return std::vector<int>{members[size_t(step.peer)]};
    return members;
  };
  const auto meets = [&](int rank, const Step& step, int other) {
    const Step* theirs = step_of(other);
    if (theirs == nullptr || theirs->group != step.group || theirs->call.count != step.call.count) return false;
    if (step.kind == StepKind::send || step.kind == StepKind::recv) {
      return theirs->kind != step.kind && (theirs->kind == StepKind::send || theirs->kind == StepKind::recv) &&
             partners(other, *theirs).front() == rank;
    }
    return theirs->kind == step.kind && theirs->call.operation == step.call.operation;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < layout.rank_count(); ++rank) {
      const Step* step = step_of(rank);
      if (step == nullptr) continue;
      const std::vector<int> others = partners(rank, *step);
      bool all = true;
      for (const int other : others) all = all && (other == rank || meets(rank, *step, other));
      if (!all) continue;
      for (const int other : others)
        if (other != rank) ++next[size_t(other)];
      ++next[size_t(rank)];
      moved = true;
    }
  }
  for (int rank = 0; rank < layout.rank_count(); ++rank)
    if (step_of(rank) != nullptr) return false;
  return true;
}

std::vector<std::vector<Step>> all_lists(const Layout& layout, const IterationShape& shape) {
  std::vector<std::vector<Step>> lists;
  for (int rank = 0; rank < layout.rank_count(); ++rank) lists.push_back(iteration_steps(layout, rank, shape));
  return lists;
}

TEST_CASE("The lists of all ranks fit together in any layout", "[iteration]") {
  for (const Layout& layout : {Layout{2, 2, 2, 1}, Layout{2, 2, 4, 2}, Layout{4, 2, 2, 2}, Layout{1, 4, 2, 1},
                               Layout{1, 1, 8, 4}, Layout{8, 1, 1, 1}}) {
    IterationShape shape;
    shape.layers = 2;
    CHECK(fits(layout, all_lists(layout, shape)));
    shape.forward_only = true;
    CHECK(fits(layout, all_lists(layout, shape)));
  }
}

TEST_CASE("A rank that exchanges the whole job's operation with its tensor group's makes a circle of waits",
          "[iteration]") {
  const Layout layout{2, 2, 2, 1};
  auto lists = all_lists(layout, {});
  REQUIRE(swap_first(&lists[5], Group::world, Group::tensor));
  CHECK_FALSE(fits(layout, lists));
}

TEST_CASE("Groups of one rank have no steps", "[iteration]") {
  for (const Step& step : iteration_steps({1, 1, 4, 1}, 2, {}))
    CHECK((step.kind == StepKind::compute || step.group == Group::data || step.group == Group::world));
}

TEST_CASE("An evaluation has no gradients", "[iteration]") {
  IterationShape shape;
  shape.forward_only = true;
  for (const Step& step : iteration_steps({2, 2, 2, 1}, 0, shape)) CHECK(step.group != Group::data);
}

TEST_CASE("Only gradients may go beside the others", "[iteration]") {
  IterationShape shape;
  shape.overlap = true;
  for (const Step& step : iteration_steps({2, 2, 2, 2}, 0, shape)) CHECK(step.beside == (step.group == Group::data));
}

}  // namespace
}  // namespace ccld::workload
