// What is known of the clocks of a job's GPUs: groups of them that can be compared, and what the order of events
// proves. Contract: plain state; nanoseconds. GPUs are numbered from 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

namespace ccld::decision::timeline {

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
  // Of two GPUs; infinite where only one end is known, or where they contradict each other.
  template <class Visit>
  void for_widths(Visit visit) const {
    for (const auto& [gpus, i] : of_) visit(gpus, i.least_ns <= i.most_ns ? i.most_ns - i.least_ns : INFINITY);
  }
  // Of GPUs in one group: by how much their clocks there are outside of what is proven, in sum.
  double contradiction_ns(const Joined& joined) const {
    double sum_ns = 0;
    for (const auto& [gpus, i] : of_) {
      const auto [a, to_a] = joined.find(static_cast<size_t>(gpus.first));
      const auto [b, to_b] = joined.find(static_cast<size_t>(gpus.second));
      if (a == b && i.rules_out(to_b - to_a)) sum_ns += std::abs(i.nearest(to_b - to_a) - (to_b - to_a));
    }
    return sum_ns;
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

}  // namespace ccld::decision::timeline
