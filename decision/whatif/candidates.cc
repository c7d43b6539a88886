#include "decision/whatif/candidates.h"

#include <algorithm>
#include <compare>
#include <map>
#include <set>
#include <utility>

namespace ccld::decision::whatif {
namespace {

struct SlowPlace {
  enum class Kind { wire, proxy, gpu } kind;
  int from = none, to = none;
  auto operator<=>(const SlowPlace&) const = default;
};

std::set<SlowPlace> places_of(const Cause& c, const Graph& g, const std::vector<GpuFacts>& facts,
                              const std::vector<SlowCollectives>& collectives) {
  std::set<SlowPlace> out;
  const auto add = [&](Component component, int gpu, int sender, int receiver) {
    const int from = at(facts, sender).host, to = at(facts, receiver).host;
    if (component == Component::proxy)
      out.insert({SlowPlace::Kind::proxy, at(facts, gpu).process, none});
    else if (component == Component::gpu)
      out.insert({SlowPlace::Kind::gpu, gpu, none});
    else if (from != to)
      out.insert({SlowPlace::Kind::wire, from, to});
  };
  if (is_late(c)) return out;
  if (c.collectives != none) {
    const SlowCollectives& slow = at(collectives, c.collectives);
    std::map<Rank, int> gpus;
    for (int member : at(g.groups, slow.operations.front().group)) {
      const Node& n = at(g.nodes, member);
      gpus[n.kernel->rank] = n.gpu;
    }
    for (const SlowLink& link : slow.links)
      if (gpus.contains(link.sender) && gpus.contains(link.receiver) && gpus.contains(link.at))
        add(link.component, gpus[link.at], gpus[link.sender], gpus[link.receiver]);
    return out;
  }
  for (int i : c.transfers) {
    const Transfer& t = at(g.transfers, i);
    add(c.kind == Cause::Kind::proxy ? Component::proxy : Component::link, c.gpu, at(g.nodes, t.send).gpu,
        at(g.nodes, t.recv).gpu);
  }
  return out;
}

}  // namespace

std::vector<Candidate> by_place(std::vector<Candidate::Part> parts, const Graph& g, const std::vector<GpuFacts>& facts,
                                const std::vector<SlowCollectives>& collectives) {
  std::vector<Candidate> out;
  std::vector<std::set<SlowPlace>> known;  // of each candidate
  for (Candidate::Part& part : parts) {
    const std::set<SlowPlace> here = places_of(part.cause, g, facts, collectives);
    size_t i = 0;
    const auto is_here = [&](const SlowPlace& p) { return known[i].contains(p); };
    while (i < out.size() && std::none_of(here.begin(), here.end(), is_here)) ++i;
    if (i == out.size()) out.emplace_back(), known.emplace_back();
    known[i].insert(here.begin(), here.end());
    out[i].most_ns += part.most_ns;
    out[i].parts.push_back(std::move(part));
  }
  return out;
}

}  // namespace ccld::decision::whatif
