#include "decision/validate/schedule.h"

#include <algorithm>
#include <set>

namespace ccld::decision::validate {
namespace {

using Link = std::pair<int, int>;

// What a pass has given away.
class Room {
 public:
  Room(const std::vector<std::string>& host_of, bool lone) : host_of_(host_of), lone_(lone) {}

  bool fits(const Pair& p) const {
    if (ranks_.count(p.from) || ranks_.count(p.to)) return false;
    if (host(p.from) == host(p.to)) return true;
    if (lone_ && (receiving_.count(host(p.from)) || sending_.count(host(p.to)))) return false;
    if (sending_.count(host(p.from)) || receiving_.count(host(p.to))) return false;
    return !p.back || (!sending_.count(host(p.to)) && !receiving_.count(host(p.from)));
  }

  void take(const Pair& p) {
    ranks_.insert({p.from, p.to});
    if (host(p.from) == host(p.to)) return;
    sending_.insert(host(p.from));
    receiving_.insert(host(p.to));
    if (!p.back) return;
    sending_.insert(host(p.to));
    receiving_.insert(host(p.from));
  }

 private:
  const std::string& host(int rank) const { return host_of_[static_cast<size_t>(rank)]; }

  const std::vector<std::string>& host_of_;
  const bool lone_;
  std::set<int> ranks_;
  std::set<std::string> sending_, receiving_;
};

// Each pair into the first pass that has room for it. Along a ring, and down a tree, that is the least number of passes
// or one more.
class Planner {
 public:
  // `lone`: no host is in two pairs of a pass.
  explicit Planner(const std::vector<std::string>& host_of, bool lone = false, size_t passes_max = SIZE_MAX)
      : host_of_(host_of), lone_(lone), passes_max_(passes_max) {}

  bool add(const Pair& p) {
    for (size_t i = begin_; i < passes_.size(); ++i)
      if (rooms_[i].fits(p)) {
        rooms_[i].take(p);
        passes_[i].push_back(p);
        return true;
      }
    if (passes_.size() == passes_max_) return false;
    passes_.push_back({p});
    rooms_.emplace_back(host_of_, lone_);
    rooms_.back().take(p);
    return true;
  }

  // What follows goes into passes of its own: links of different orders may differ in kind, and are compared by pass.
  void begin_order() { begin_ = passes_.size(); }

  std::vector<Pass> take() { return std::move(passes_); }

 private:
  const std::vector<std::string>& host_of_;
  const bool lone_;
  const size_t passes_max_;
  size_t begin_ = 0;
  std::vector<Pass> passes_;
  std::vector<Room> rooms_;
};

// Children after their parents; what is no tree (a circle) is left out.
std::vector<int> downwards(const std::vector<int>& parent) {
  const int n = static_cast<int>(parent.size());
  std::vector<std::vector<int>> children(parent.size());
  std::vector<int> order;
  for (int r = 0; r < n; ++r) {
    const int p = parent[static_cast<size_t>(r)];
    if (p < 0)
      order.push_back(r);
    else if (p < n)
      children[static_cast<size_t>(p)].push_back(r);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    const std::vector<int>& below = children[static_cast<size_t>(order[i])];
    order.insert(order.end(), below.begin(), below.end());
  }
  return order;
}

}  // namespace

Orders orders_by_rank(int ranks) {
  Orders out;
  std::vector<int> ring, chain;
  for (int r = 0; r < ranks; ++r) {
    ring.push_back(r);
    chain.push_back(r - 1);
  }
  out.rings.push_back(std::move(ring));
  out.parents.push_back(std::move(chain));
  return out;
}

std::vector<Pass> passes_of(const Orders& orders, const std::vector<std::string>& host_of) {
  std::set<Link> known;
  Planner planner(host_of);
  for (const std::vector<int>& ring : orders.rings) {
    if (ring.size() < 2) continue;
    planner.begin_order();
    for (size_t i = 0; i < ring.size(); ++i) {
      const Pair p{ring[i], ring[(i + 1) % ring.size()], false};
      if (known.insert({p.from, p.to}).second) planner.add(p);
    }
  }
  // Up for the sums, down for the results.
  for (const std::vector<int>& parent : orders.parents) {
    planner.begin_order();
    for (const int rank : downwards(parent)) {
      const int above = parent[static_cast<size_t>(rank)];
      if (above < 0) continue;
      const bool up = known.insert({rank, above}).second, down = known.insert({above, rank}).second;
      if (up)
        planner.add({rank, above, down});
      else if (down)
        planner.add({above, rank, false});
    }
  }
  return planner.take();
}

std::vector<Pass> lone_passes(const std::vector<Link>& slow, const std::vector<std::string>& host_of) {
  Planner planner(host_of, true, extra_passes_max);
  for (const auto& [from, to] : slow) planner.add({from, to, false});
  return planner.take();
}

std::vector<Pass> cross_passes(const std::vector<Link>& slow, const std::vector<std::string>& host_of) {
  const auto host = [&](int rank) -> const std::string& { return host_of[static_cast<size_t>(rank)]; };
  std::set<std::string> doubtful;
  for (const auto& [from, to] : slow) doubtful.insert({host(from), host(to)});
  std::vector<int> others;
  for (int r = 0; r < static_cast<int>(host_of.size()); ++r)
    if (!doubtful.count(host(r))) others.push_back(r);
  Planner planner(host_of, true, extra_passes_max);
  std::set<Link> known(slow.begin(), slow.end());
  // Neighbours of different links take turns, so that a pass has many pairs.
  size_t turn = 0;
  for (const auto& [from, to] : slow) {
    if (others.empty()) break;
    const Pair away{from, others[turn++ % others.size()], false}, towards{others[turn++ % others.size()], to, false};
    for (const Pair& p : {away, towards})
      if (known.insert({p.from, p.to}).second) planner.add(p);
  }
  return planner.take();
}

}  // namespace ccld::decision::validate
