#include "decision/whatif/clocks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "decision/measure/middle.h"

namespace ccld::decision::whatif {
namespace {

// Groups of GPUs whose clocks are known to each other; joined one by one.
class Joined {
 public:
  explicit Joined(size_t n) : parent_(n), shift_ns_(n) { std::iota(parent_.begin(), parent_.end(), size_t{0}); }
  // Its group, and what to add to its clock to get that of the group.
  std::pair<size_t, double> find(size_t i) const {
    double shift_ns = 0;
    for (; parent_[i] != i; i = parent_[i]) shift_ns += shift_ns_[i];
    return {i, shift_ns};
  }
  // Clock of `b` plus `ns` is clock of `a`. False: that was known.
  bool join(size_t a, size_t b, double ns) {
    const auto [root_a, to_a] = find(a);
    const auto [root_b, to_b] = find(b);
    if (root_a == root_b) return false;
    parent_[root_b] = root_a;
    shift_ns_[root_b] = ns + to_a - to_b;
    return true;
  }
  // Paths become short.
  void tidy() {
    for (size_t i = 0; i < parent_.size(); ++i) {
      const auto [root, shift_ns] = find(i);
      parent_[i] = root;
      shift_ns_[i] = root == i ? 0 : shift_ns;
    }
  }

 private:
  std::vector<size_t> parent_;
  std::vector<double> shift_ns_;
};

// Clock of the second plus d is clock of the first, d within.
struct Interval {
  double least_ns = -INFINITY, most_ns = INFINITY;
  bool rules_out(double ns) const { return least_ns <= most_ns && (ns < least_ns || ns > most_ns); }
  double nearest(double ns) const { return std::min(std::max(ns, least_ns), std::max(most_ns, least_ns)); }
};

// What the order of events proves: a Recv ends after its Send has begun, a collective ends nowhere before it has begun
// everywhere. Clocks drift, so everything is proven but for `slack_ns`.
class Proven {
 public:
  explicit Proven(double slack_ns) : slack_ns_(slack_ns) {}
  void begun_before(int begun, double begun_ns, int ended, double ended_ns) {
    Interval& i = of_[std::minmax(begun, ended)];
    if (begun < ended)
      i.least_ns = std::max(i.least_ns, begun_ns - ended_ns - slack_ns_);
    else
      i.most_ns = std::min(i.most_ns, ended_ns - begun_ns + slack_ns_);
  }
  // Of groups, by all their GPUs, in the order of their numbers.
  std::map<std::pair<size_t, size_t>, Interval> between_groups(const Joined& joined) const {
    std::map<std::pair<size_t, size_t>, Interval> out;
    for_groups(joined, [&](size_t a, size_t b, const Interval& i, double shift_ns) {
      if (a != b) narrow(out[std::minmax(a, b)], i, shift_ns, a < b);
    });
    return out;
  }
  Interval between(const Joined& joined, size_t group_a, size_t group_b) const {
    Interval out;
    for_groups(joined, [&](size_t a, size_t b, const Interval& i, double shift_ns) {
      if (std::minmax(a, b) == std::minmax(group_a, group_b)) narrow(out, i, shift_ns, a == group_a);
    });
    return out;
  }

 private:
  // Of each two GPUs: their groups, what is proven, and what to add to it to have it of the groups' clocks.
  template <class Look>
  void for_groups(const Joined& joined, Look look) const {
    for (const auto& [gpus, i] : of_) {
      const auto [a, to_a] = joined.find(static_cast<size_t>(gpus.first));
      const auto [b, to_b] = joined.find(static_cast<size_t>(gpus.second));
      look(a, b, i, to_a - to_b);
    }
  }
  static void narrow(Interval& out, const Interval& i, double shift_ns, bool same_order) {
    const double least_ns = i.least_ns + shift_ns, most_ns = i.most_ns + shift_ns;
    out.least_ns = std::max(out.least_ns, same_order ? least_ns : -most_ns);
    out.most_ns = std::min(out.most_ns, same_order ? most_ns : -least_ns);
  }

  double slack_ns_;
  std::map<std::pair<int, int>, Interval> of_;
};

// Common time minus the service's is the same by all GPUs of a component, but for what their kernels queue at least,
// and for what is not known of the clocks of machines: where there are enough on its machine a GPU is compared with
// those.
template <class ByHost>
std::vector<double> always_queued(const Clocks& c, const std::vector<HostClock>& hosts, ByHost by_host) {
  constexpr size_t enough = 3;  // for a middle
  std::vector<double> out(c.shift_ns.size());
  if (hosts.size() != out.size()) return out;
  const auto offset_ns = [&](size_t g) { return c.shift_ns[g] - by_host(g); };
  std::map<int, std::vector<double>> of_component;
  std::map<std::pair<int, int>, std::vector<double>> of_machine;
  for (size_t g = 0; g < out.size(); ++g) {
    if (!hosts[g].known) continue;
    of_component[c.component[g]].push_back(offset_ns(g));
    of_machine[{c.component[g], hosts[g].machine}].push_back(offset_ns(g));
  }
  for (size_t g = 0; g < out.size(); ++g) {
    const std::vector<double>& here = of_machine[{c.component[g], hosts[g].machine}];
    const std::vector<double>& among = here.size() >= enough ? here : of_component[c.component[g]];
    if (hosts[g].known && among.size() >= enough) out[g] = std::max(0.0, offset_ns(g) - middle(among));
  }
  return out;
}

}  // namespace

Clocks compare_clocks(const Timeline& t, const Matches& m, const std::vector<HostClock>& hosts,
                      const Settings& settings) {
  const size_t n = t.gpus().size();
  const auto kernel = [&](Place p) -> const Kernel& { return kernel_at(t, p); };
  // Device times are far from zero: differences are taken before they become floating point.
  std::vector<uint64_t> origin(n);
  uint64_t longest_ns = 0;
  for (size_t g = 0; g < n; ++g) {
    uint64_t last_ns = 0;
    for (const Kernel& k : t.gpus()[g].kernels) {
      if (origin[g] == 0 || k.begin_ns < origin[g]) origin[g] = k.begin_ns;
      last_ns = std::max(last_ns, k.end_ns);
    }
    longest_ns = std::max(longest_ns, last_ns - origin[g]);
  }
  const auto since_first = [&](Place p, uint64_t ns) {
    return static_cast<double>(static_cast<int64_t>(ns - at(origin, p.gpu)));
  };

  Proven proven(2e-6 * settings.clock_drift_max_ppm * static_cast<double>(longest_ns));
  const auto begun_before = [&](Place begun, Place ended) {
    proven.begun_before(begun.gpu, since_first(begun, kernel(begun).begin_ns), ended.gpu,
                        since_first(ended, kernel(ended).end_ns));
  };
  for (const Pair& p : m.pairs) begun_before(p.send, p.recv);
  for (const Collective& c : m.collectives)
    for (Place p : c.members)
      if (p.gpu != c.members[0].gpu) begun_before(c.members[0], p), begun_before(p, c.members[0]);

  // Those of a communicator whose transfers are the shortest first.
  std::map<CommUid, std::vector<std::pair<double, const Collective*>>> by_comm;
  for (const Collective& c : m.collectives) {
    double least = INFINITY;
    for (Place p : c.members) least = std::min(least, static_cast<double>(kernel(p).end_ns - kernel(p).begin_ns));
    by_comm[c.comm].emplace_back(least, &c);
  }
  std::vector<std::pair<double, const std::vector<std::pair<double, const Collective*>>*>> comms;
  for (auto& [comm, list] : by_comm) {
    std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    list.resize(std::max<size_t>(1, list.size() / 4));
    comms.emplace_back(list.front().first, &list);
  }
  std::stable_sort(comms.begin(), comms.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<ClockPair> known = t.clock_pairs();
  std::stable_sort(known.begin(), known.end(),
                   [](const ClockPair& a, const ClockPair& b) { return a.doubt_ns < b.doubt_ns; });
  Joined joined(n);
  Clocks out;
  // False: that was known, or it is ruled out.
  const auto join = [&](size_t a, size_t b, double ns) {
    const auto [group_a, to_a] = joined.find(a);
    const auto [group_b, to_b] = joined.find(b);
    return group_a != group_b && !proven.between(joined, group_a, group_b).rules_out(ns + to_a - to_b) &&
           joined.join(a, b, ns);
  };
  const auto join_known = [&](const ClockPair& p) {
    const auto a = static_cast<size_t>(t.find(p.a)), b = static_cast<size_t>(t.find(p.b));
    if (a < n && b < n && join(a, b, static_cast<double>(static_cast<int64_t>(p.ns + origin[b] - origin[a]))))
      out.pairs.push_back(p);
  };
  auto next_known = known.begin();
  for (const auto& [least, list] : comms) {
    while (next_known != known.end() && next_known->doubt_ns < settings.whatif_clocks_times_min * least)
      join_known(*next_known++);
    std::map<std::pair<int, int>, std::vector<double>> ends;  // of the first member and another one
    for (const auto& [ns, c] : *list)
      for (Place p : c->members)
        if (p.gpu != c->members[0].gpu)
          ends[{c->members[0].gpu, p.gpu}].push_back(since_first(c->members[0], kernel(c->members[0]).end_ns) -
                                                     since_first(p, kernel(p).end_ns));
    for (auto& [gpus, ns] : ends) {
      const auto a = static_cast<size_t>(gpus.first), b = static_cast<size_t>(gpus.second);
      const double apart_ns = middle(ns);
      if (join(a, b, apart_ns))
        out.pairs.push_back({t.gpus()[a].key, t.gpus()[b].key,
                             static_cast<uint64_t>(static_cast<int64_t>(apart_ns)) + origin[a] - origin[b], least});
    }
    joined.tidy();
  }
  while (next_known != known.end()) join_known(*next_known++);
  joined.tidy();

  const auto by_hosts = [&](size_t g) { return hosts[g].device_to_service_ns + static_cast<double>(origin[g]); };
  // What hosts say of a whole group: each of its GPUs has a say.
  std::vector<std::vector<double>> host_words(n);
  for (size_t g = 0; g < n; ++g)
    if (hosts.size() == n && hosts[g].known) {
      const auto [root, shift] = joined.find(g);
      host_words[root].push_back(by_hosts(g) - shift);
    }
  std::vector<double> host_shift(n, NAN);
  for (size_t r = 0; r < n; ++r)
    if (!host_words[r].empty()) host_shift[r] = middle(host_words[r]);
  for (const auto& [groups, i] : proven.between_groups(joined)) {
    double d = host_shift[groups.second] - host_shift[groups.first];
    if (std::isnan(d)) d = std::isfinite(i.least_ns + i.most_ns) ? (i.least_ns + i.most_ns) / 2 : 0;
    joined.join(groups.first, groups.second, i.nearest(d));
  }
  joined.tidy();

  out.shift_ns.resize(n);
  out.component.resize(n);
  std::map<size_t, int> numbers;
  for (size_t g = 0; g < n; ++g) {
    const auto [root, shift] = joined.find(g);
    out.component[g] = numbers.emplace(root, static_cast<int>(numbers.size())).first->second;
    out.shift_ns[g] = shift;
    out.origin_ns.push_back(origin[g]);
  }
  out.components = static_cast<int>(numbers.size());
  out.always_queued_ns = always_queued(out, hosts, by_hosts);
  return out;
}

}  // namespace ccld::decision::whatif
