// The calls of all members of a group that have one number: one row for each collective, in order.
// Pure. Threads: any.
#pragma once

#include <functional>
#include <vector>

#include "decision/import/job.h"

namespace ccld::decision::dumps {

enum class Presence : uint8_t {
  called,
  not_called,    // the rank made no call of that number or a later one
  part_missing,  // it made the call, with fewer parts
  passed,        // it is further on; the call itself is not in its dump
  unsure,        // its dump has no call of the group, and has lost older calls
  no_dump,
};
struct Cell {
  Presence presence = Presence::no_dump;
  const Call* call = nullptr;  // if it was called
};
struct Row {
  uint64_t sequence = 0;
  uint32_t part = 0;
  std::vector<Cell> cells;  // by member
};

// In ascending order, until `see` returns false.
void walk_rows(const Group&, const std::function<bool(const Row&)>& see);

}  // namespace ccld::decision::dumps
