#include "decision/timeline/clocks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "decision/measure/middle.h"
#include "decision/timeline/clock_groups.h"

namespace ccld::decision::timeline {
namespace {

// When a GPU's first kernel began, by the service's clock.
double by_host_ns(const HostClock& host, uint64_t origin_ns) {
  return host.device_to_service_ns + static_cast<double>(origin_ns);
}

// Common time minus the service's is the same by all GPUs of a component, but for what their kernels queue at least,
// and for what is not known of the clocks of machines: where there are enough on its machine a GPU is compared with
// those.
std::vector<double> always_queued(const Clocks& c, const std::vector<HostClock>& hosts) {
  constexpr size_t enough = 3;  // for a middle
  std::vector<double> out(c.shift_ns.size());
  if (hosts.size() != out.size()) return out;
  const auto offset_ns = [&](size_t g) { return c.shift_ns[g] - by_host_ns(hosts[g], c.origin_ns[g]); };
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

// Those of a communicator whose transfers are the shortest, with how long these took at least.
struct Ends {
  double least_ns = INFINITY;
  std::vector<const Collective*> collectives;
};

class Comparison {
 public:
  // `known`: of earlier windows.
  Comparison(const Timeline& t, const Matches& m, const std::vector<HostClock>& hosts, const Settings& settings,
             std::vector<ClockPair> known)
      : t_(t),
        m_(m),
        hosts_(hosts),
        settings_(settings),
        n_(t.gpus().size()),
        joined_(n_),
        by_kernels_(n_),
        known_(std::move(known)) {
    std::stable_sort(known_.begin(), known_.end(),
                     [](const ClockPair& a, const ClockPair& b) { return a.doubt_ns < b.doubt_ns; });
    find_origins();
    find_proven();
    join_all();
    joined_.tidy();
  }

  // By how much the clocks contradict what is proven, in sum.
  double contradiction_ns() const { return proven_.contradiction_ns(joined_); }

  Clocks result() {
    Clocks out;
    out.shift_ns.resize(n_);
    out.component.resize(n_);
    out.by_kernels.resize(n_);
    std::map<size_t, int> numbers;
    for (size_t g = 0; g < n_; ++g) {
      const auto [root, shift] = joined_.find(g);
      out.component[g] = numbers.emplace(root, static_cast<int>(numbers.size())).first->second;
      out.shift_ns[g] = shift;
      out.by_kernels[g] = static_cast<int>(by_kernels_.find(g).first);
    }
    out.components = static_cast<int>(numbers.size());
    out.origin_ns = std::move(origin_);
    out.pairs = std::move(pairs_);
    for (const ClockPair& p : out.pairs) {
      out.doubt_ns = std::max(out.doubt_ns, p.doubt_ns);
      out.hosts_differ_ns = std::max(out.hosts_differ_ns, p.hosts_differ_ns);
    }
    return out;
  }

 private:
  const Kernel& kernel(Place p) const { return kernel_at(t_, p); }
  // Device times are far from zero: differences are taken before they become floating point.
  double since_first(Place p, uint64_t ns) const {
    return static_cast<double>(static_cast<int64_t>(ns - at(origin_, p.gpu)));
  }
  void find_origins() {
    origin_.resize(n_);
    for (size_t g = 0; g < n_; ++g) {
      uint64_t last_ns = 0;
      for (const Kernel& k : t_.gpus()[g].kernels) {
        if (origin_[g] == 0 || k.begin_ns < origin_[g]) origin_[g] = k.begin_ns;
        last_ns = std::max(last_ns, k.end_ns);
      }
      longest_ns_ = std::max(longest_ns_, last_ns - origin_[g]);
    }
  }
  void find_proven() {
    proven_ = Proven(2e-6 * settings_.clock_drift_max_ppm * static_cast<double>(longest_ns_));
    const auto begun_before = [&](Place begun, Place ended) {
      proven_.begun_before(begun.gpu, since_first(begun, kernel(begun).begin_ns), ended.gpu,
                           since_first(ended, kernel(ended).end_ns));
    };
    for (const Pair& p : m_.pairs) begun_before(p.send, p.recv);
    for (const Collective& c : m_.collectives)
      for (Place p : c.members)
        if (p.gpu != c.members[0].gpu) begun_before(c.members[0], p), begun_before(p, c.members[0]);
  }
  std::vector<Ends> shortest() const {
    std::map<CommUid, std::vector<std::pair<double, const Collective*>>> by_comm;
    for (const Collective& c : m_.collectives) {
      double least_ns = INFINITY;
      for (Place p : c.members)
        least_ns = std::min(least_ns, static_cast<double>(kernel(p).end_ns - kernel(p).begin_ns));
      by_comm[c.comm].emplace_back(least_ns, &c);
    }
    std::vector<Ends> out;
    for (auto& [comm, list] : by_comm) {
      std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      list.resize(std::max<size_t>(1, list.size() / 4));
      Ends& ends = out.emplace_back();
      ends.least_ns = list.front().first;
      for (const auto& [least_ns, c] : list) ends.collectives.push_back(c);
    }
    return out;
  }

  // What leaves the least doubt first.
  void join_all() {
    struct Source {
      double doubt_ns;
      const Ends* ends;  // nullptr: what is proven of two GPUs
      std::pair<int, int> gpus;
    };
    std::vector<Source> sources;
    // What is proven says nothing of where within it the clocks are, while ends are most often closer to each other
    // than their doubt.
    proven_.for_widths([&](std::pair<int, int> gpus, double ns) {
      sources.push_back({settings_.whatif_clocks_times_min * ns, nullptr, gpus});
    });
    const std::vector<Ends> all = shortest();
    for (const Ends& ends : all) sources.push_back({ends.least_ns, &ends, {}});
    std::stable_sort(sources.begin(), sources.end(),
                     [](const Source& a, const Source& b) { return a.doubt_ns < b.doubt_ns; });
    Joined before(n_);
    for (const ClockPair& p : known_)
      if (const auto d = difference_of(p)) before.join(d->a, d->b, d->ns);
    before.tidy();
    auto next = known_.begin();
    for (const auto& [doubt_ns, ends, gpus] : sources) {
      while (next != known_.end() && next->doubt_ns < settings_.whatif_clocks_times_min * doubt_ns) join_known(*next++);
      if (ends)
        join_ends(*ends, before);
      else
        join_proven(static_cast<size_t>(gpus.first), static_cast<size_t>(gpus.second), doubt_ns);
    }
    while (next != known_.end()) join_known(*next++);
  }

  struct Difference {
    size_t a, b;
    double ns;  // the clock of b plus this is that of a
  };
  std::optional<Difference> difference_of(const ClockPair& p) const {
    const auto a = static_cast<size_t>(t_.find(p.a)), b = static_cast<size_t>(t_.find(p.b));
    if (a >= n_ || b >= n_) return std::nullopt;
    return Difference{a, b, static_cast<double>(static_cast<int64_t>(p.ns + origin_[b] - origin_[a]))};
  }
  void remember(const Difference& d, double doubt_ns, double hosts_differ_ns) {
    pairs_.push_back({t_.gpus()[d.a].key, t_.gpus()[d.b].key,
                      static_cast<uint64_t>(static_cast<int64_t>(d.ns)) + origin_[d.a] - origin_[d.b], doubt_ns,
                      hosts_differ_ns});
    if (hosts_differ_ns == 0) by_kernels_.join(d.a, d.b, 0);
  }
  // False: it was known, or it is ruled out.
  bool join(const Difference& d) {
    const auto [group_a, to_a] = joined_.find(d.a);
    const auto [group_b, to_b] = joined_.find(d.b);
    if (group_a == group_b || proven_.between(joined_, group_a, group_b).rules_out(d.ns + to_a - to_b)) return false;
    return joined_.join(d.a, d.b, d.ns);
  }
  void join_known(const ClockPair& p) {
    if (const auto d = difference_of(p); d && join(*d)) remember(*d, p.doubt_ns, p.hosts_differ_ns);
  }
  // `before`: as the clocks were. They drift, and do not jump: ends that say so did not come together, because some of
  // a tree's branches are slow.
  void join_ends(const Ends& of, const Joined& before) {
    std::map<std::pair<int, int>, std::vector<double>> ends_ns;  // of the first member and another one
    for (const Collective* c : of.collectives)
      for (Place first = c->members[0]; Place p : c->members)
        if (p.gpu != first.gpu)
          ends_ns[{first.gpu, p.gpu}].push_back(since_first(first, kernel(first).end_ns) -
                                                since_first(p, kernel(p).end_ns));
    for (auto& [gpus, ns] : ends_ns) {
      const Difference d{static_cast<size_t>(gpus.first), static_cast<size_t>(gpus.second), middle(std::move(ns))};
      const auto [group_a, to_a] = before.find(d.a);
      const auto [group_b, to_b] = before.find(d.b);
      const bool jumps = group_a == group_b && std::abs(d.ns - (to_b - to_a)) > known_.back().doubt_ns + of.least_ns;
      if (!jumps && join(d)) remember(d, of.least_ns, 0);
    }
    joined_.tidy(), by_kernels_.tidy();
  }
  // What hosts say of a whole group, in which each of its GPUs has a say; NaN: nothing.
  double host_shift(size_t group) const {
    std::vector<double> words_ns;
    for (size_t g = 0; g < n_ && hosts_.size() == n_; ++g)
      if (const auto [root, shift] = joined_.find(g); root == group && hosts_[g].known)
        words_ns.push_back(by_host_ns(hosts_[g], origin_[g]) - shift);
    return words_ns.empty() ? NAN : middle(std::move(words_ns));
  }
  // Within what is proven of all GPUs of two groups, hosts decide.
  void join_proven(size_t a, size_t b, double doubt_ns) {
    const auto [group_a, to_a] = joined_.find(a);
    const auto [group_b, to_b] = joined_.find(b);
    if (group_a == group_b) return;
    const Interval i = proven_.between(joined_, group_a, group_b);
    double ns = host_shift(group_b) - host_shift(group_a);
    if (std::isnan(ns)) ns = std::isfinite(i.least_ns + i.most_ns) ? (i.least_ns + i.most_ns) / 2 : 0;
    ns = i.nearest(ns);
    joined_.join(group_a, group_b, ns);
    // They may be wrong by what is proven, and by how their telemetry comes; on one machine by how long their kernels
    // queue at least.
    const double differ_ns = std::clamp(i.most_ns - i.least_ns, 0.0, 1e6 * settings_.batches_differ_max_ms);
    if (std::isfinite(doubt_ns)) remember({a, b, ns + to_b - to_a}, doubt_ns, differ_ns);
    joined_.tidy();
  }

  const Timeline& t_;
  const Matches& m_;
  const std::vector<HostClock>& hosts_;
  const Settings& settings_;
  size_t n_;
  uint64_t longest_ns_ = 0;
  std::vector<uint64_t> origin_;
  Proven proven_{0};
  Joined joined_, by_kernels_;
  std::vector<ClockPair> known_, pairs_;  // of earlier windows, and what tells it now
};

}  // namespace

Clocks compare_clocks(const Timeline& t, const Matches& m, const std::vector<HostClock>& hosts,
                      const Settings& settings) {
  Comparison comparison(t, m, hosts, settings, t.clock_pairs());
  std::optional<Comparison> anew;
  // In an earlier window an operation may have been believed whose ends came apart. What two GPUs prove about each
  // other need not contradict that, while what all GPUs prove together does.
  if (comparison.contradiction_ns() > 0 && !t.clock_pairs().empty())
    anew.emplace(t, m, hosts, settings, std::vector<ClockPair>());
  const bool better = anew && anew->contradiction_ns() < comparison.contradiction_ns();
  Clocks out = (better ? *anew : comparison).result();
  out.always_queued_ns = always_queued(out, hosts);
  return out;
}

}  // namespace ccld::decision::timeline
