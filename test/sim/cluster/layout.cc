#include "test/sim/cluster/layout.h"

namespace ccld::sim {

const char* name(CommKind kind) {
  switch (kind) {
    case CommKind::tensor: return "tensor";
    case CommKind::pipeline: return "pipeline";
    case CommKind::data: return "data";
    case CommKind::expert: return "expert";
    case CommKind::world: return "world";
  }
  return "?";
}

Layout::Layout(const LayoutSizes& sizes) : sizes_(sizes) {
  for (auto& v : comm_of_) v.assign(processes(), -1);
  for (auto& v : rank_of_) v.assign(processes(), -1);
  const int t = sizes.tensor, d = sizes.data, p = sizes.pipeline, e = sizes.expert;
  const auto at = [&](int ti, int di, int pi) { return ti + t * (di + d * pi); };
  if (sizes.world) {
    std::vector<int> all(processes());
    for (int i = 0; i < processes(); ++i) all[i] = i;
    add(CommKind::world, all);
  }
  for (int pi = 0; pi < p && t > 1; ++pi)
    for (int di = 0; di < d; ++di) {
      std::vector<int> m;
      for (int ti = 0; ti < t; ++ti) m.push_back(at(ti, di, pi));
      add(CommKind::tensor, m);
    }
  for (int di = 0; di < d && p > 1; ++di)
    for (int ti = 0; ti < t; ++ti) {
      std::vector<int> m;
      for (int pi = 0; pi < p; ++pi) m.push_back(at(ti, di, pi));
      add(CommKind::pipeline, m);
    }
  for (int pi = 0; pi < p && d > 1; ++pi)
    for (int ti = 0; ti < t; ++ti) {
      std::vector<int> m;
      for (int di = 0; di < d; ++di) m.push_back(at(ti, di, pi));
      add(CommKind::data, m);
    }
  for (int pi = 0; pi < p && e > 1; ++pi)
    for (int ti = 0; ti < t; ++ti)
      for (int first = 0; first + e <= d; first += e) {
        std::vector<int> m;
        for (int i = 0; i < e; ++i) m.push_back(at(ti, first + i, pi));
        add(CommKind::expert, m);
      }
}

void Layout::add(CommKind kind, std::vector<int> members) {
  const auto k = static_cast<size_t>(kind);
  CommSpec c{kind, sizes_.uid_base + comms_.size(), sim::name(kind), std::move(members)};
  for (int r = 0; r < c.ranks(); ++r) {
    comm_of_[k][c.members[r]] = static_cast<int>(comms_.size());
    rank_of_[k][c.members[r]] = r;
  }
  comms_.push_back(std::move(c));
}

int Layout::rank_in(int comm, int process) const {
  const auto k = static_cast<size_t>(comms_[comm].kind);
  return comm_of_[k][process] == comm ? rank_of_[k][process] : -1;
}

}  // namespace ccld::sim
