#include "decision/whatif/graph.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "decision/timeline/unreported.h"

namespace ccld::decision::whatif {
namespace {

// The kernels of a GPU in the order of their begins, between the first and the last that others depend on: outside,
// reports of other GPUs are missing.
std::vector<std::vector<int>> kernels_in_order(const Timeline& t, const Matches& m) {
  const size_t n = t.gpus().size();
  std::vector<uint64_t> from(n, UINT64_MAX), to(n, 0);
  std::vector<std::vector<int>> out(n);
  const auto seen = [&](Place p) {
    const Kernel& k = kernel_at(t, p);
    if (k.earlier) return at(out, p.gpu).push_back(p.kernel);
    at(from, p.gpu) = std::min(at(from, p.gpu), k.begin_ns);
    at(to, p.gpu) = std::max(at(to, p.gpu), k.end_ns);
  };
  absl::flat_hash_set<CommUid> reported;
  for (const auto* collectives : {&m.collectives, &m.others})
    for (const Collective& c : *collectives)
      if (c.whole) reported.insert(c.comm);
  for (const auto* collectives : {&m.collectives, &m.others})
    for (const Collective& c : *collectives)
      // In a large communicator some report of each operation may be lost: then all of them count.
      if (c.whole || !reported.contains(c.comm))
        for (Place p : c.members) seen(p);
  for (const Pair& p : m.pairs) seen(p.send), seen(p.recv);
  for (size_t g = 0; g < n; ++g) {
    const std::vector<Kernel>& kernels = t.gpus()[g].kernels;
    for (size_t i = 0; i < kernels.size(); ++i)
      if (!kernels[i].earlier && kernels[i].begin_ns >= from[g] && kernels[i].end_ns <= to[g])
        out[g].push_back(static_cast<int>(i));
    std::sort(out[g].begin(), out[g].end(), [&](int a, int b) {
      const Kernel &x = at(kernels, a), &y = at(kernels, b);
      return x.begin_ns != y.begin_ns ? x.begin_ns < y.begin_ns : x.end_ns < y.end_ns;
    });
  }
  return out;
}

// What came last before each kernel on its GPU. Kernels of several streams may run at the same time.
void find_before(std::vector<Node>& nodes, int first, int last) {
  std::vector<int> running;
  int newest = none;
  for (int i = first; i < last; ++i) {
    if (!nodes[i].is_of_window) {
      newest = i;
      continue;
    }
    if (nodes[i].kernel->earlier) continue;
    const uint64_t begin = nodes[i].kernel->begin_ns;
    std::erase_if(running, [&](int r) {
      if (nodes[r].kernel->end_ns > begin) return false;
      if (newest == none || nodes[r].kernel->end_ns > nodes[newest].kernel->end_ns) newest = r;
      return true;
    });
    nodes[i].before = newest;
    if (newest != none && nodes[i].reported) {
      nodes[i].own_ns = static_cast<double>(begin - nodes[newest].kernel->end_ns);
      nodes[i].own_known = nodes[newest].reported;
    }
    running.push_back(i);
  }
}

// Begins, ends and groups in an order in which each comes after what it depends on; false: there is none.
bool find_order(Graph& g) {
  const int n = static_cast<int>(g.nodes.size()), all = 2 * n + static_cast<int>(g.groups.size());
  std::vector<int> waiting(static_cast<size_t>(all)), first(static_cast<size_t>(all) + 1), to;
  const auto edges = [&](auto visit) {  // (before, after)
    for (int i = 0; i < n; ++i) {
      const Node& node = at(g.nodes, i);
      if (node.before != none) visit(node.before + n, i);
      visit(i, i + n);
      if (node.group != none) {
        visit(i, node.group + 2 * n);
        if (node.waited) visit(node.group + 2 * n, i + n);
      }
      for (int j = 0; j < node.needs; ++j) visit(at(g.needs, node.first_need + j), i + n);
      if (node.launch_need != none) visit(at(g.nodes, node.launch_need).launched_after + n, i + n);
    }
  };
  edges([&](int from, int after) { ++first[static_cast<size_t>(from) + 1], ++at(waiting, after); });
  for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  to.resize(static_cast<size_t>(first.back()));
  std::vector<int> next = first;
  edges([&](int from, int after) { at(to, at(next, from)++) = after; });
  for (int v = 0; v < all; ++v)
    if (at(waiting, v) == 0) g.order.push_back(v);
  for (size_t i = 0; i < g.order.size(); ++i) {
    const auto v = static_cast<size_t>(g.order[i]);
    for (int e = first[v]; e < first[v + 1]; ++e)
      if (--at(waiting, at(to, e)) == 0) g.order.push_back(at(to, e));
  }
  return static_cast<int>(g.order.size()) == all;
}

struct Instant {
  double ns = -INFINITY;
  double since_ns = 0;  // where what decided it began: the first kernel of some GPU
  Instant later(double by_ns) const { return {ns + by_ns, since_ns}; }
  bool operator<(const Instant& other) const { return ns < other.ns; }
};

// When all that the node's end depends on had begun.
template <class BeginOf, class LaunchOf>
Instant ready_at(const Graph& g, const Node& node, Instant own_begin, Instant group, BeginOf begin_of,
                 LaunchOf launch_of) {
  Instant ready = own_begin;
  if (node.group != none && node.waited) ready = std::max(ready, group);
  for (int j = 0; j < node.needs; ++j) ready = std::max(ready, begin_of(at(g.needs, node.first_need + j)));
  if (node.launch_need != none) ready = std::max(ready, launch_of(node.launch_need));
  return ready;
}

// From its launch to its begin, at least. NaN: not known.
double queued_ns(const Timeline& t, const Node& node) {
  const uint64_t launch_ns = node.kernel->launch_monotonic_ns;
  const int64_t least_ns = at(t.gpus(), node.gpu).launch_least_ns;
  if (node.before == none || launch_ns == 0 || least_ns == INT64_MAX) return NAN;
  return static_cast<double>(static_cast<int64_t>(node.kernel->begin_ns - launch_ns) - least_ns);
}

void find_launches(const Timeline& t, Graph& g) {
  for (Node& node : g.nodes) {
    node.queued_ns = queued_ns(t, node);
    if (std::isnan(node.queued_ns)) continue;
    const double launch_ns = node.launch_ns();
    int& ended = node.launched_after = node.before;
    while (ended != none && at(g.nodes, ended).end_ns > launch_ns) ended = at(g.nodes, ended).before;
    if (ended != none) node.launched_after_ns = launch_ns - at(g.nodes, ended).end_ns;
  }
}

// The last one of the window before is what came before the first one of this window, if that is known.
bool follows(const Gpu& gpu, const std::vector<int>& order) {
  if (!gpu.before) return false;
  uint64_t first_ns = UINT64_MAX;
  for (const Kernel& k : gpu.kernels)
    if (!k.earlier) first_ns = std::min(first_ns, k.begin_ns);
  const auto first = std::find_if(order.begin(), order.end(), [&](int i) { return !at(gpu.kernels, i).earlier; });
  return first != order.end() && at(gpu.kernels, *first).begin_ns == first_ns && first_ns >= gpu.before->end_ns;
}

// Of the calls of its kernel: they end together.
uint64_t largest_bytes(const Timeline& t, const Node& n) {
  uint64_t bytes = 0;
  for (uint32_t c = 0; c < n.kernel->call_count; ++c)
    bytes = std::max(bytes, at(at(t.gpus(), n.gpu).calls, n.kernel->first_call + c).bytes);
  return bytes;
}

struct UnreportedNodes {
  absl::flat_hash_map<const Collective*, std::vector<int>> of;
  absl::flat_hash_map<const OneEnd*, int> other_end;
};

// Adds the nodes of a GPU: `order` are its reported kernels. The others go into `unreported`, too.
void add_nodes(Graph& g, int gpu, const Timeline& t, const Clocks& clocks, const std::vector<int>& order,
               const std::vector<Unreported>& lost, std::vector<int>& node_of, UnreportedNodes& unreported) {
  const std::vector<Kernel>& kernels = at(t.gpus(), gpu).kernels;
  const auto first = static_cast<int>(g.nodes.size());
  const auto add = [&](const Kernel& kernel, bool reported) {
    Node node;
    node.kernel = &kernel;
    node.reported = reported;
    node.gpu = gpu;
    node.begin_ns = clocks.common_ns(gpu, kernel.begin_ns);
    node.end_ns = clocks.common_ns(gpu, kernel.end_ns);
    g.nodes.push_back(node);
    return static_cast<int>(g.nodes.size()) - 1;
  };
  auto next = lost.begin();
  const auto add_lost_until = [&](uint64_t begin_ns) {
    for (; next != lost.end() && next->kernel.begin_ns < begin_ns; ++next) {
      g.unreported.push_back(std::make_unique<const Kernel>(next->kernel));
      const int node = add(*g.unreported.back(), false);
      if (next->of)
        unreported.of[next->of].push_back(node);
      else
        unreported.other_end[next->other_end] = node;
    }
  };
  node_of.assign(kernels.size(), none);
  if (follows(at(t.gpus(), gpu), order)) at(g.nodes, add(*at(t.gpus(), gpu).before, true)).is_of_window = false;
  for (int i : order) {
    add_lost_until(at(kernels, i).begin_ns);
    at(node_of, i) = add(at(kernels, i), true);
  }
  g.gpus.emplace_back(first, static_cast<int>(g.nodes.size()));
  find_before(g.nodes, first, static_cast<int>(g.nodes.size()));
}

std::optional<Graph> build(const Timeline& t, const Matches& m, const Clocks& clocks,
                           const std::vector<std::vector<int>>& order, const std::vector<std::vector<Unreported>>& lost,
                           double gain_min) {
  Graph g;
  std::vector<std::vector<int>> node_of(order.size());
  UnreportedNodes unreported;
  for (size_t gpu = 0; gpu < order.size(); ++gpu)
    add_nodes(g, static_cast<int>(gpu), t, clocks, order[gpu], lost[gpu], node_of[gpu], unreported);
  const auto node_at = [&](Place p) { return at(at(node_of, p.gpu), p.kernel); };
  for (const auto* collectives : {&m.collectives, &m.others}) {
    g.whole_groups = g.groups.size();
    for (const Collective& c : *collectives) {
      std::vector<int> group;
      for (Place p : c.members)
        if (node_at(p) != none) group.push_back(node_at(p));
      if (const auto it = unreported.of.find(&c); it != unreported.of.end())
        group.insert(group.end(), it->second.begin(), it->second.end());
      if (group.size() < 2) continue;
      for (int member : group) at(g.nodes, member).group = static_cast<int>(g.groups.size());
      g.groups.push_back(std::move(group));
    }
  }
  std::vector<double> started(g.groups.size(), -INFINITY);
  for (size_t i = 0; i < g.groups.size(); ++i)
    for (int member : g.groups[i]) started[i] = std::max(started[i], at(g.nodes, member).begin_ns);
  // Who was still there when the last one began may have waited for it.
  const auto was_there = [&](const Node& n, double at_ns) { return n.end_ns >= at_ns; };
  for (size_t i = g.whole_groups; i < g.groups.size(); ++i)
    for (int member : g.groups[i]) {
      Node& n = at(g.nodes, member);
      n.waited = was_there(n, started[i]);
    }
  find_launches(t, g);
  std::vector<std::pair<int, int>> needs;  // node, what it needs
  const auto add_transfer = [&](int send, int recv, uint64_t bytes, uint64_t pair_seq) {
    bytes = std::max(bytes, largest_bytes(t, at(g.nodes, recv)));
    const Node &s = at(g.nodes, send), &r = at(g.nodes, recv);
    needs.emplace_back(recv, send);
    // One that took longer than clocks may differ, and ended when its Recv began, had found no room; or when that was
    // launched: receives are posted then, and the network may have room for the rest.
    const double took_ns = s.end_ns - s.begin_ns, early_ns = took_ns > clocks.doubt_ns ? clocks.doubt_ns : 0;
    if (was_there(s, r.begin_ns - early_ns)) {
      needs.emplace_back(send, recv);
    } else if (r.launched_after != none && s.begin_ns < r.launch_ns()) {
      // The launch may have been earlier: for how long all kernels of a GPU are queued nobody knows. But a Send that
      // ended just before it, as measured by how long it took, is not likely to have waited for anything else.
      const double least_ns = s.end_ns - at(g.nodes, r.launched_after).end_ns;
      if (was_there(s, r.launch_ns() - (least_ns < 0 ? early_ns : std::max(early_ns, gain_min * took_ns)))) {
        at(g.nodes, send).launch_need = recv;
        at(g.nodes, recv).launched_after_ns = std::clamp(least_ns, 0.0, r.launched_after_ns);
      }
    }
    const double ns = std::max(0.0, r.end_ns - std::max(r.begin_ns, s.begin_ns));
    const double doubt_ns = at(clocks.by_kernels, s.gpu) == at(clocks.by_kernels, r.gpu) ? 0 : clocks.hosts_differ_ns;
    g.transfers.push_back({send, recv, bytes, pair_seq, ns, doubt_ns, s.reported && r.reported});
  };
  for (const Pair& p : m.pairs) add_transfer(node_at(p.send), node_at(p.recv), p.bytes, p.pair_seq);
  for (const OneEnd& e : m.one_ends) {
    const auto it = unreported.other_end.find(&e);
    const int known = node_at(e.known);
    if (it == unreported.other_end.end() || known == none) continue;
    add_transfer(e.known_sends ? known : it->second, e.known_sends ? it->second : known, e.bytes, e.pair_seq);
  }
  std::sort(needs.begin(), needs.end());
  for (const auto& [node, need] : needs) {
    Node& n = at(g.nodes, node);
    if (n.needs++ == 0) n.first_need = static_cast<int>(g.needs.size());
    g.needs.push_back(need);
  }
  if (!find_order(g)) return std::nullopt;
  for (Node& node : g.nodes) {
    const Instant ready = ready_at(
        g, node, {node.begin_ns}, {node.group == none ? 0 : at(started, node.group)},
        [&](int i) { return Instant{at(g.nodes, i).begin_ns}; },
        [&](int i) { return Instant{at(g.nodes, i).launch_ns()}; });
    node.transfer_ns = std::max(0.0, node.end_ns - ready.ns);
    // What a graph holds is launched together.
    if (node.kernel->replay != 0 && node.before != none &&
        at(g.nodes, node.before).kernel->replay == node.kernel->replay)
      node.host_ns = 0;
    if (std::isnan(node.queued_ns)) continue;
    const double launched_after_ns = node.own_ns - node.queued_ns - at(clocks.always_queued_ns, node.gpu);
    node.host_ns = std::clamp(launched_after_ns, 0.0, node.own_ns);
  }
  g.length_ns = length_with(g, Change(g.nodes.size())).ns;
  return g.length_ns > 0 ? std::optional(std::move(g)) : std::nullopt;
}

}  // namespace

std::optional<Graph> build_graph(const Timeline& t, const Matches& m, const Clocks& clocks, const Settings& settings) {
  if (m.collectives.empty() && m.others.empty() && m.pairs.empty()) return std::nullopt;
  const std::vector<std::vector<int>> order = kernels_in_order(t, m);
  const std::vector<std::vector<Unreported>> lost = find_unreported(t, m, clocks, order);
  if (std::any_of(lost.begin(), lost.end(), [](const auto& of) { return !of.empty(); }))
    if (auto g = build(t, m, clocks, order, lost, settings.whatif_gain_min)) return g;
  // Where a kernel is put that nobody reported may contradict what is known.
  return build(t, m, clocks, order, std::vector<std::vector<Unreported>>(order.size()), settings.whatif_gain_min);
}

Length length_with(const Graph& g, const Change& change, std::vector<double>* waits_ns) {
  const int n = static_cast<int>(g.nodes.size());
  if (waits_ns) waits_ns->assign(g.nodes.size(), 0);
  std::vector<Instant> begin(g.nodes.size()), end(g.nodes.size()), group(g.groups.size());
  const auto launch_of = [&](int node) {
    const Node& launched = at(g.nodes, node);
    const double less_ns = launched.launched_after == launched.before ? at(change.own_less_ns, node) : 0;
    return at(end, launched.launched_after).later(std::max(0.0, launched.launched_after_ns - less_ns));
  };
  for (int v : g.order) {
    if (v >= 2 * n) continue;  // its members have added themselves
    const auto i = static_cast<size_t>(v < n ? v : v - n);
    const Node& node = g.nodes[i];
    if (v < n) {
      begin[i] =
          node.before == none
              ? Instant{node.begin_ns, node.begin_ns}
              : at(end, node.before).later(std::max(0.0, node.own_ns - static_cast<double>(change.own_less_ns[i])));
      if (node.group != none) at(group, node.group) = std::max(at(group, node.group), begin[i]);
      continue;
    }
    if (!node.is_of_window) {
      end[i] = {node.end_ns, node.end_ns};
      continue;
    }
    const Instant ready = ready_at(
        g, node, begin[i], node.group == none ? Instant{} : at(group, node.group),
        [&](int need) { return at(begin, need); }, launch_of);
    if (waits_ns) (*waits_ns)[i] = ready.ns - begin[i].ns;
    end[i] = ready.later(std::max(0.0, node.transfer_ns - static_cast<double>(change.transfer_less_ns[i])));
  }
  double first = INFINITY;
  Length sum;
  int gpus = 0;
  for (const auto& [from, to] : g.gpus) {
    Instant last;
    for (int i = from; i < to; ++i) {
      if (!at(g.nodes, i).is_of_window) first = std::min(first, at(g.nodes, i).end_ns);
      if (at(g.nodes, i).kernel->earlier) continue;
      first = std::min(first, at(g.nodes, i).begin_ns);
      last = std::max(last, at(end, i));
    }
    if (last.ns > -INFINITY) sum.ns += last.ns, sum.fixed_ns += last.since_ns, ++gpus;
  }
  return gpus == 0 ? Length{} : Length{sum.ns / gpus - first, sum.fixed_ns / gpus - first};
}

}  // namespace ccld::decision::whatif
