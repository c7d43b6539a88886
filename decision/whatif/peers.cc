#include "decision/whatif/peers.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "decision/measure/middle.h"
#include "decision/model/signature.h"

namespace ccld::decision::whatif {
namespace {

constexpr float off = NAN;  // of a node that is not compared

// Of many, half may be slow: one of two hosts. Then the usual is among the faster half. Stages in the middle of a
// pipeline have one role, too, and one of two of them may have more to do.
double usual_of(std::vector<float>& values, bool in_pipeline, const Settings& settings) {
  if (in_pipeline || values.size() < 2 * settings.whatif_peers_min) return median(values);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Roles of which a GPU sends or receives.
std::set<int> roles_in_pipelines(const Graph& g, const std::vector<int>& roles) {
  std::set<int> out;
  for (const Node& n : g.nodes)
    if (n.kernel->op.value == 0) out.insert(at(roles, n.gpu));
  return out;
}

// Operations of communicators that do the same have the same numbers.
size_t occurrence_of(const Timeline& t, const Node& n, size_t kind) {
  const Kernel& k = *n.kernel;
  const uint64_t number = k.op.value != 0 ? k.op.value : at(t.gpus(), n.gpu).calls[k.first_call].pair_seq;
  return absl::HashOf(kind, number, k.replay);
}

// Kinds in which what is beyond the peers' does not recur are left out. It recurs if the GPU is late to a good part of
// the operations, or if a good part of those who are as late is always the same GPU.
// `recurring`: by node, what did so over several windows.
void leave_out_rare(const Graph& g, const Kinds& kinds, const std::vector<bool>& recurring, const Settings& settings,
                    Beyond& b) {
  std::map<std::pair<int, size_t>, std::vector<float>> of_role;  // and kind: by how much each is beyond
  for (size_t i = 0; i < g.nodes.size(); ++i)
    if (!std::isnan(b.own_ns[i]))
      of_role[{at(kinds.role_of_gpu, g.nodes[i].gpu), kinds.of_node[i]}].push_back(b.own_ns[i]);
  for (auto& [kind, ns] : of_role) std::sort(ns.begin(), ns.end());
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    struct OfKind {
      double sum_ns = 0;
      std::vector<int> nodes;
    };
    absl::flat_hash_map<size_t, OfKind> of;
    for (int i = g.gpus[gpu].first; i < g.gpus[gpu].second; ++i) {
      if (std::isnan(at(b.own_ns, i))) continue;
      OfKind& k = of[at(kinds.of_node, i)];
      k.sum_ns += at(b.own_ns, i);
      k.nodes.push_back(i);
    }
    for (const auto& [kind, k] : of) {
      if (k.sum_ns <= 0) continue;
      const auto nodes = static_cast<double>(k.nodes.size());
      const auto late_ns = static_cast<float>(k.sum_ns / nodes / 2);
      const auto own = std::count_if(k.nodes.begin(), k.nodes.end(), [&](int i) { return at(b.own_ns, i) >= late_ns; });
      const std::vector<float>& all_ns = of_role[{kinds.role_of_gpu[gpu], kind}];
      const auto all = all_ns.end() - std::lower_bound(all_ns.begin(), all_ns.end(), late_ns);
      if (static_cast<double>(own) <
          std::max<double>(static_cast<double>(settings.slow_rounds_min),
                           settings.whatif_recurs_min * std::min(nodes, static_cast<double>(all))))
        for (int i : k.nodes)
          if (!at(recurring, i)) at(b.own_ns, i) = off;
    }
  }
}

// By node: its work is seldom, and takes longer than that of its peers in window after window.
std::vector<bool> recurring_nodes(const Graph& g, const Timeline& t, const Kinds& kinds, const Recurring& recurring,
                                  const Beyond& b, Seldom& seldom) {
  std::vector<bool> out(g.nodes.size());
  for (size_t gpu = 0; gpu < g.gpus.size(); ++gpu) {
    absl::flat_hash_map<uint64_t, std::vector<int>> works;
    for (int i = g.gpus[gpu].first; i < g.gpus[gpu].second; ++i)
      if (!std::isnan(at(b.own_ns, i))) works[work_after(g, t, kinds, i)].push_back(i);
    for (const auto& [work, nodes] : works) {
      if (!recurring.is_seldom(nodes.size())) continue;
      const uint64_t key = absl::HashOf(work, "peers");
      std::vector<float>& now = seldom[key];
      for (int i : nodes) now.push_back(at(b.own_ns, i));
      if (recurring.recurs(key, now))
        for (int i : nodes) out[static_cast<size_t>(i)] = true;
    }
  }
  return out;
}

}  // namespace

Beyond compare_with_peers(const Graph& g, const Timeline& t, const Kinds& k, const Recurring& recurring,
                          const Settings& settings, Seldom& seldom) {
  const std::vector<size_t>& kinds = k.of_node;
  const std::vector<int>& roles = k.role_of_gpu;
  absl::flat_hash_map<std::pair<int, size_t>, std::vector<int>> occurrences;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const Node& n = g.nodes[i];
    const int role = at(roles, n.gpu);
    // Whoever is late to a barrier may be so on purpose: it writes a checkpoint.
    if (n.own_known && role != none && !is_barrier(n.kernel->signature, settings.barrier_bytes_max))
      occurrences[{role, occurrence_of(t, n, kinds[i])}].push_back(static_cast<int>(i));
  }
  Beyond b;
  b.own_ns.assign(g.nodes.size(), off);
  b.host_ns.assign(g.nodes.size(), off);
  b.gpus.resize(g.gpus.size());
  std::map<int, size_t> sizes;  // GPUs of each role
  for (int role : roles)
    if (role != none) ++sizes[role];
  size_t comparable = 0;  // GPUs that have a peer
  for (const auto& [role, gpus] : sizes)
    if (gpus > 1) comparable += gpus;
  const std::set<int> pipelines = roles_in_pipelines(g, roles);
  std::vector<float> own, host;
  for (const auto& [key, nodes] : occurrences) {
    // A GPU is compared with at least whatif_peers_min peers. In the stages of a pipeline only two or three GPUs may
    // have a role: they are compared with each other if there are enough others to say what differences are usual.
    const size_t present = nodes.size(), enough = settings.whatif_peers_min;
    if (present <= enough && (present < 2 || present < sizes[key.first] || comparable - present <= enough)) continue;
    const bool in_pipeline = pipelines.contains(key.first);
    own.clear(), host.clear();
    for (int i : nodes) {
      own.push_back(static_cast<float>(at(g.nodes, i).own_ns));
      const double ns = at(g.nodes, i).host_ns;
      if (!std::isnan(ns)) host.push_back(static_cast<float>(ns));
    }
    // The mean of two hides half of their difference.
    const float own_times = own.size() == 2 ? 2 : 1, host_times = host.size() == 2 ? 2 : 1;
    const auto own_usual = static_cast<float>(usual_of(own, in_pipeline, settings)),
               host_usual = host.empty() ? off : static_cast<float>(usual_of(host, in_pipeline, settings));
    for (int i : nodes) {
      const Node& n = at(g.nodes, i);
      at(b.own_ns, i) = own_times * (static_cast<float>(n.own_ns) - own_usual);
      at(b.host_ns, i) = host_times * (static_cast<float>(n.host_ns) - host_usual);
      Beyond::OfGpu& of = at(b.gpus, n.gpu);
      of.peers = std::max(of.peers, static_cast<int>(nodes.size()) - 1);
    }
  }
  leave_out_rare(g, k, recurring_nodes(g, t, k, recurring, b, seldom), settings, b);
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Beyond::OfGpu& of = at(b.gpus, g.nodes[i].gpu);
    if (std::isnan(b.own_ns[i])) {
      b.own_ns[i] = b.host_ns[i] = 0;
      continue;
    }
    of.add(b.own_ns[i], b.host_ns[i], g.nodes[i].own_ns);
    ++of.nodes;
  }
  std::vector<float> distances;  // 0: nothing recurs
  for (const Beyond::OfGpu& of : b.gpus)
    if (of.peers > 0) distances.push_back(static_cast<float>(std::abs(of.sum_ns)));
  const double deviation_ns = standard_deviation(usual_of(distances, !pipelines.empty(), settings));
  for (Beyond::OfGpu& of : b.gpus)
    if (of.nodes > 0) of.deviation_ns = deviation_ns;
  return b;
}

}  // namespace ccld::decision::whatif
