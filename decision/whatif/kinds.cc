#include "decision/whatif/kinds.h"

#include <cmath>
#include <map>
#include <set>

#include "absl/hash/hash.h"

namespace ccld::decision::whatif {
namespace {

// What an exchange with experts carries is another size each time, so only the order of magnitude counts. A pipeline's
// stage has two neighbours at most, and which of them it talks to tells it from other stages; among more peers all have
// the same role.
size_t kind_of_calls(const Gpu& gpu, const Kernel& k, const Settings& settings) {
  uint64_t bytes = 0;
  std::set<int32_t> peers;
  bool calls[2][2] = {};  // by direction and side
  for (uint32_t c = 0; c < k.call_count; ++c) {
    const Call& call = at(gpu.calls, k.first_call + c);
    if (call.peer == k.rank) continue;
    bytes += call.bytes;
    peers.insert(call.peer.value);
    calls[call.direction == abi::Direction::recv][call.peer > k.rank] = true;
  }
  const uint64_t size = size_class(bytes, settings.whatif_lone_times_min);
  return peers.size() > 2 ? absl::HashOf(size) : absl::HashOf(size, calls[0][0], calls[0][1], calls[1][0], calls[1][1]);
}

size_t kind_of_operation(const Graph& g, const Node& n, uint64_t size) {
  const Kernel& k = *n.kernel;
  const size_t here = n.group == none ? 0 : at(g.groups, n.group).size(),
               members = k.ranks > 0 ? static_cast<size_t>(k.ranks) : here;
  return absl::HashOf(k.signature.function, size, k.signature.datatype, members);
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

uint64_t work_after(const Graph& g, const Timeline& t, const Kinds& kinds, int node) {
  const Node& n = at(g.nodes, node);
  return absl::HashOf(at(t.gpus(), n.gpu).key, at(kinds.of_node, n.before), at(kinds.of_node, node));
}

uint64_t size_class(uint64_t bytes, double times) {
  if (bytes == 0 || times <= 1) return bytes;
  return 1 + static_cast<uint64_t>(std::lround(std::log(static_cast<double>(bytes)) / std::log(times)));
}

uint64_t transfer_class(uint64_t bytes, const Settings& settings) {
  return size_class(bytes, std::sqrt(settings.whatif_transfer_times_min));
}

Kinds kinds_of(const Graph& g, const Timeline& t, const Settings& settings) {
  Kinds out;
  for (const Node& n : g.nodes) {
    const uint64_t count = n.kernel->signature.count;
    out.of_node.push_back(n.kernel->op.value == 0 ? kind_of_calls(at(t.gpus(), n.gpu), *n.kernel, settings)
                                                  : kind_of_operation(g, n, count));
    out.of_steps.push_back(kind_of_operation(g, n, transfer_class(count, settings)));
  }
  out.role_of_gpu = roles_of(g, out.of_node, settings.whatif_same_role_min);
  return out;
}

}  // namespace ccld::decision::whatif
