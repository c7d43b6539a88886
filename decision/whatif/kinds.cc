#include "decision/whatif/kinds.h"

#include <cmath>
#include <map>

#include "absl/hash/hash.h"

namespace ccld::decision::whatif {
namespace {

size_t kind_of(const Graph& g, const Timeline& t, const Node& n) {
  const Kernel& k = *n.kernel;
  if (k.op.value != 0) {
    const size_t here = n.group == none ? 0 : at(g.groups, n.group).size(),
                 members = k.ranks > 0 ? static_cast<size_t>(k.ranks) : here;
    return absl::HashOf(k.signature.function, k.signature.count, k.signature.datatype, members);
  }
  size_t kind = 0;
  for (uint32_t c = 0; c < k.call_count; ++c) {
    const Call& call = at(t.gpus(), n.gpu).calls[k.first_call + c];
    kind = absl::HashOf(kind, call.direction, call.peer > k.rank, call.bytes);
  }
  return kind;
}

// How often one kind follows another, as a logarithm: most calls of a pipeline's stages are the same in all of them,
// and the few others tell the stages apart.
using Habits = std::map<size_t, double>;

double angle(const Habits& a, const Habits& b) {
  double ab = 0, aa = 0, bb = 0;
  for (const auto& [what, n] : a) {
    aa += n * n;
    if (const auto it = b.find(what); it != b.end()) ab += n * it->second;
  }
  for (const auto& [what, n] : b) bb += n * n;
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

// GPUs have the same role if they do the same in the same order.
std::vector<int> roles_of(const Graph& g, const std::vector<size_t>& kinds, double same_role_min) {
  std::vector<int> roles(g.gpus.size(), none);
  std::vector<Habits> known;
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    Habits habits;
    for (int i = g.gpus[gpu].first; i < g.gpus[gpu].second; ++i)
      if (const int before = at(g.nodes, i).before; before != none)
        ++habits[absl::HashOf(at(kinds, before), at(kinds, i))];
    if (habits.empty()) continue;
    for (auto& [what, n] : habits) n = std::log1p(n);
    size_t role = 0;
    while (role < known.size() && angle(known[role], habits) < same_role_min) ++role;
    if (role == known.size()) known.push_back(std::move(habits));
    roles[gpu] = static_cast<int>(role);
  }
  return roles;
}

}  // namespace

Kinds kinds_of(const Graph& g, const Timeline& t, const Settings& settings) {
  Kinds out;
  for (const Node& n : g.nodes) out.of_node.push_back(kind_of(g, t, n));
  out.role_of_gpu = roles_of(g, out.of_node, settings.whatif_same_role_min);
  return out;
}

}  // namespace ccld::decision::whatif
