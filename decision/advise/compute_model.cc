#include "decision/advise/compute_model.h"

#include <algorithm>
#include <map>

namespace ccld::decision::advise {
namespace {

// Of slow cells with these extras in one replica.
struct Extra {
  double sum = 0, longest = 0;
  void add(double extra) { sum += extra, longest = std::max(longest, extra); }
};

uint64_t place_in(const Grid& g, const LayoutPlace& p) { return g.place(p.pipeline, p.data); }

}  // namespace

double loss_of(const Facts& f) { return std::max(0.0, f.now - f.without); }

Grid grid_of(const Layout& l) { return {l.pipeline, l.data}; }

double compute_loss(const Facts& f) {
  double share = 0, all = 0;
  for (const Suspect& s : f.suspects) {
    all += s.share;
    if (s.fault == Fault::compute) share += s.share;
  }
  return all > 0 ? loss_of(f) * share / all : 0;
}

Troubles troubles_of(const Facts& f, const Layout& layout, double micro_batches) {
  const Grid grid = grid_of(layout);
  const auto place = [&](uint64_t process) { return place_in(grid, place_of(layout, process)); };
  std::map<uint64_t, double> cells;
  std::map<std::pair<uint64_t, uint64_t>, double> links;
  double all = 0;
  for (const Suspect& s : f.suspects) {
    all += s.share;
    if (!s.process.has_value() || *s.process >= layout.processes()) continue;
    const uint64_t at = place(*s.process);
    // GPUs of a tensor group wait for each other in every layer: the slowest counts.
    if (s.fault == Fault::compute) cells[at] = std::max(cells[at], s.share);
    // Both ends of a link may be named.
    if (s.fault == Fault::link && s.peer_process.has_value() && *s.peer_process < layout.processes()) {
      const uint64_t other = place(*s.peer_process);
      links[std::minmax(at, other)] += s.share;
    }
  }
  std::map<uint64_t, Extra> replicas;
  for (const auto& [at, share] : cells) replicas[at / grid.stages].add(share);
  // Shares are parts of what all causes cost one by one. Causes of different replicas cost at the same time, so parts
  // become times by what the slowest replica costs.
  double longest = 0;
  for (const auto& [replica, extra] : replicas)
    longest = std::max(longest, extra.sum + (micro_batches - 1) * extra.longest);
  const double scale = longest > 0 ? compute_loss(f) / longest : 0;
  Troubles t;
  for (const auto& [at, share] : cells) t.cells.push_back({at, share * scale});
  for (const auto& [ends, share] : links)
    t.links.push_back({ends.first, ends.second, all > 0 ? share / all * loss_of(f) : 0});
  return t;
}

std::vector<Replica> replicas_of(const Grid& grid, const std::vector<SlowCell>& cells, double micro_batches,
                                 double without, double rest) {
  const double stages = static_cast<double>(grid.stages);
  const double healthy = (without - rest) / (micro_batches + stages - 1);
  std::vector<Extra> extras(grid.replicas);
  for (const SlowCell& c : cells)
    if (c.place < grid.places()) extras[c.place / grid.stages].add(c.extra);
  std::vector<Replica> replicas;
  for (const Extra& e : extras)
    replicas.push_back({healthy + e.longest, rest + (stages - 1) * healthy + e.sum - e.longest});
  return replicas;
}

}  // namespace ccld::decision::advise
