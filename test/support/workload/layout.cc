#include "test/support/workload/layout.h"

#include <stdexcept>

namespace ccld::workload {
namespace {

constexpr Group groups[] = {Group::world, Group::tensor, Group::pipeline, Group::data, Group::expert};

}  // namespace

const char* name(Group group) {
  switch (group) {
    case Group::world: return "world";
    case Group::tensor: return "tp";
    case Group::pipeline: return "pp";
    case Group::data: return "dp";
    case Group::expert: return "ep";
  }
  return "?";
}

Group group_named(const std::string& text) {
  for (const Group group : groups) {
    if (text == name(group)) return group;
  }
  throw std::invalid_argument("unknown communicator '" + text + "'; there are world, tp, pp, dp and ep");
}

int Layout::color(Group group, int rank) const {
  switch (group) {
    case Group::world: return 0;
    case Group::tensor: return rank / tp;
    case Group::pipeline: return rank % (tp * dp);
    case Group::data: return stage_of(rank) * tp + tensor_index_of(rank);
    case Group::expert: return color(Group::data, rank) * (dp / ep) + data_index_of(rank) / ep;
  }
  return 0;
}

std::vector<int> Layout::members(Group group, int rank) const {
  std::vector<int> result;
  for (int other = 0; other < rank_count(); ++other) {
    if (color(group, other) == color(group, rank)) result.push_back(other);
  }
  return result;
}

std::string check(const Layout& layout, int rank_count) {
  if (layout.tp < 1 || layout.pp < 1 || layout.dp < 1 || layout.ep < 1)
    return "--tp, --pp, --dp and --ep must be at least 1";
  if (layout.rank_count() != rank_count) {
    return "--tp " + std::to_string(layout.tp) + " x --pp " + std::to_string(layout.pp) + " x --dp " +
           std::to_string(layout.dp) + " is not --ranks " + std::to_string(rank_count);
  }
  if (layout.dp % layout.ep != 0) return "--ep: must divide --dp";
  return "";
}

}  // namespace ccld::workload
