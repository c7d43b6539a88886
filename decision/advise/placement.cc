#include "decision/advise/placement.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

namespace ccld::decision::advise {
namespace {

uint64_t stage_of(const Grid& g, uint64_t place) { return place % g.stages; }
uint64_t replica_of(const Grid& g, uint64_t place) { return place / g.stages; }

// The troubles where they lie now. A cell is known by its first place.
class Board {
 public:
  Board(const Grid& grid, const Troubles& troubles, double micro_batches)
      : grid_(grid), troubles_(troubles), micro_batches_(micro_batches) {
    std::set<uint64_t> cells;
    for (const SlowCell& c : troubles_.cells) cells.insert(c.place);
    for (const SlowLink& l : troubles_.links)
      if (l.place != l.other) cells.insert({l.place, l.other});
    troubled_.assign(cells.begin(), cells.end());
    now_ = troubled_;
  }

  size_t troubled() const { return now_.size(); }
  uint64_t place(size_t cell) const { return now_[cell]; }

  // What is at both places changes sides; only troubled cells are followed.
  void exchange(uint64_t a, uint64_t b) {
    for (uint64_t& p : now_)
      if (p == a)
        p = b;
      else if (p == b)
        p = a;
  }

  double loss() const {
    struct Of {
      uint64_t replica;
      double sum = 0, longest = 0;
    };
    std::vector<Of> replicas;
    for (const SlowCell& c : troubles_.cells) {
      const uint64_t replica = replica_of(grid_, now(c.place));
      auto of = std::find_if(replicas.begin(), replicas.end(), [&](const Of& o) { return o.replica == replica; });
      if (of == replicas.end()) of = replicas.insert(of, {replica});
      of->sum += c.extra;
      of->longest = std::max(of->longest, c.extra);
    }
    double longest = 0, links = 0;
    for (const Of& o : replicas) longest = std::max(longest, o.sum + (micro_batches_ - 1) * o.longest);
    for (const SlowLink& l : troubles_.links)
      if (traffic(l) != Traffic::none) links += l.loss;
    return longest + links;
  }

  size_t stages() const {
    std::vector<uint64_t> stages;
    for (const SlowCell& c : troubles_.cells) {
      const uint64_t stage = stage_of(grid_, now(c.place));
      if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
    }
    return stages.size();
  }

  // The smallest is the best.
  using Cost = std::tuple<double, uint64_t, size_t, uint64_t>;
  Cost cost() const {
    uint64_t weight = 0, outer = 0;
    for (const SlowLink& l : troubles_.links) weight += static_cast<uint64_t>(traffic(l));
    for (const SlowCell& c : troubles_.cells) {
      // Embedding and loss make the first and the last stage longer.
      const uint64_t stage = stage_of(grid_, now(c.place));
      outer += stage == 0 || stage + 1 == grid_.stages ? 1 : 0;
    }
    return {loss(), weight, stages(), outer};
  }

 private:
  uint64_t now(uint64_t first) const {
    return now_[static_cast<size_t>(std::lower_bound(troubled_.begin(), troubled_.end(), first) - troubled_.begin())];
  }
  Traffic traffic(const SlowLink& l) const {
    return l.place == l.other ? Traffic::gradients : traffic_between(grid_, now(l.place), now(l.other));
  }

  const Grid& grid_;
  const Troubles& troubles_;
  const double micro_batches_;
  std::vector<uint64_t> troubled_, now_;  // where each was, in order, and is
};

Troubles within(const Grid& grid, const Troubles& all) {
  Troubles t;
  for (const SlowCell& c : all.cells)
    if (c.place < grid.places() && t.cells.size() < troubles_max) t.cells.push_back(c);
  for (const SlowLink& l : all.links)
    if (l.place < grid.places() && l.other < grid.places() && t.cells.size() + t.links.size() < troubles_max)
      t.links.push_back(l);
  return t;
}

// Less by more than rounding. Fewer or inner stages alone are not worth what an exchange costs.
bool helps(const Board::Cost& after, const Board::Cost& before) {
  constexpr double rounding = 1e-9;
  const double difference = std::get<0>(after) - std::get<0>(before);
  if (std::abs(difference) > rounding * (1 + std::abs(std::get<0>(before)))) return difference < 0;
  return std::get<1>(after) < std::get<1>(before);
}

bool better(const Board::Cost& a, const Board::Cost& b) {
  if (helps(a, b)) return true;
  return !helps(b, a) && std::tie(std::get<2>(a), std::get<3>(a)) < std::tie(std::get<2>(b), std::get<3>(b));
}

}  // namespace

Traffic traffic_between(const Grid& g, uint64_t place, uint64_t other) {
  const uint64_t stage = stage_of(g, place), other_stage = stage_of(g, other);
  if (stage == other_stage) return Traffic::gradients;
  const uint64_t apart = stage > other_stage ? stage - other_stage : other_stage - stage;
  return apart == 1 && replica_of(g, place) == replica_of(g, other) ? Traffic::activations : Traffic::none;
}

Placement place_troubles(const Grid& grid, const Troubles& all, double micro_batches) {
  const Troubles troubles = within(grid, all);
  Board board(grid, troubles, std::max(1.0, micro_batches));
  Placement out;
  out.loss_before = board.loss();
  while (out.exchanges.size() < exchanges_max) {
    const Board::Cost before = board.cost();
    std::optional<std::pair<uint64_t, uint64_t>> best;
    Board::Cost best_cost = before;
    for (size_t cell = 0; cell < board.troubled(); ++cell) {
      const uint64_t from = board.place(cell);
      for (uint64_t to = 0; to < grid.places(); ++to) {
        if (to == from) continue;
        board.exchange(from, to);
        const Board::Cost cost = board.cost();
        board.exchange(from, to);
        if (helps(cost, before) && (!best.has_value() || better(cost, best_cost))) best = {from, to}, best_cost = cost;
      }
    }
    if (!best.has_value()) break;
    board.exchange(best->first, best->second);
    out.exchanges.push_back(*best);
  }
  out.loss_after = board.loss();
  return out;
}

}  // namespace ccld::decision::advise
