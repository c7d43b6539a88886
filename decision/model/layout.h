// How the processes of a job are laid out over tensor, pipeline, data and expert parallelism, if somebody says so.
//
// Contract: pure. Sizes from 1; 0: not given. `order`: the dimensions from the one whose members are neighbours in the
// numbering of all processes to the one whose members are farthest apart, e.g. "tp-dp-pp". Expert groups are consecutive
// parts of data groups.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "decision/model/verdict.h"

namespace ccld::decision {

struct Layout {
  uint64_t tensor = 0, pipeline = 0, data = 0, expert = 0;
  std::string order = "tp-dp-pp";
  bool given() const { return tensor * pipeline * data > 0; }
  uint64_t processes() const { return tensor * pipeline * data; }
};

// Where a process is in each dimension.
struct LayoutPlace {
  uint64_t tensor = 0, pipeline = 0, data = 0;
};
// Of a layout that is given, with an order that is right.
LayoutPlace place_of(const Layout&, uint64_t process);

// "tp-dp-pp": each of the three once.
absl::Status check_order(std::string_view order);

// Which groups these processes are, by their numbers among all processes of the job; unknown: none of the layout's.
CommRole role_of(const Layout&, const std::vector<int>& processes);

}  // namespace ccld::decision
