#include "decision/import/rows.h"

#include <limits>
#include <utility>

namespace ccld::decision::dumps {
namespace {

using Key = std::pair<uint64_t, uint32_t>;
constexpr Key end_key = {std::numeric_limits<uint64_t>::max(), std::numeric_limits<uint32_t>::max()};

Key key_of(const Call& c) { return {c.sequence, c.part}; }

Cell cell_of(const Group& g, const Member& m, size_t at, Key key) {
  if (!m.has_dump) return {Presence::no_dump, nullptr};
  if (at < m.collectives.size() && key_of(m.collectives[at]) == key) return {Presence::called, &m.collectives[at]};
  if (at > 0 && m.collectives[at - 1].sequence == key.first) return {Presence::part_missing, nullptr};
  if (at < m.collectives.size()) return {Presence::passed, nullptr};
  // The status counts sends and receives of the group too, so there it says nothing of collectives.
  if (!g.has_transfers && m.last_enqueued >= 0 && static_cast<uint64_t>(m.last_enqueued) >= key.first)
    return {Presence::passed, nullptr};
  if (m.collectives.empty() && !m.complete) return {Presence::unsure, nullptr};
  return {Presence::not_called, nullptr};
}

}  // namespace

void walk_rows(const Group& g, const std::function<bool(const Row&)>& see) {
  std::vector<size_t> at(g.members.size(), 0);
  Row row;
  row.cells.resize(g.members.size());
  for (;;) {
    Key key = end_key;
    for (size_t m = 0; m < at.size(); ++m)
      if (at[m] < g.members[m].collectives.size()) key = std::min(key, key_of(g.members[m].collectives[at[m]]));
    if (key == end_key) return;
    row.sequence = key.first;
    row.part = key.second;
    for (size_t m = 0; m < at.size(); ++m) row.cells[m] = cell_of(g, g.members[m], at[m], key);
    if (!see(row)) return;
    for (size_t m = 0; m < at.size(); ++m)
      if (row.cells[m].presence == Presence::called) ++at[m];
  }
}

}  // namespace ccld::decision::dumps
