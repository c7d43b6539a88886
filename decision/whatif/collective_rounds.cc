#include "decision/whatif/collective_rounds.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"

namespace ccld::decision::whatif {
namespace {

size_t kind_of(const Graph& g, int group, const Kinds& kinds) {
  const int member = at(g.groups, group).front();
  const Kernel& k = *at(g.nodes, member).kernel;
  return absl::HashOf(at(kinds.of_steps, member), k.signature.algorithm, k.signature.protocol, k.replay != 0);
}

// Since when a rank's proxies can post receives for this operation: they take one operation of a communicator after the
// other. Where the one before was not reported, the end of the last kernel before, of any communicator, is an upper
// bound.
double free_since_ns(const Graph& g, const Node& n) {
  const OpSeq before{n.kernel->op.value - 1};
  for (int i = n.before; i != none; i = at(g.nodes, i).before) {
    const Kernel& k = *at(g.nodes, i).kernel;
    if (k.comm == n.kernel->comm && k.op == before) return std::min(n.begin_ns, at(g.nodes, i).end_ns);
    if (k.comm == n.kernel->comm && k.op < before) break;
  }
  return n.before == none ? n.begin_ns : std::min(n.begin_ns, at(g.nodes, n.before).end_ns);
}

}  // namespace

std::map<CommUid, std::vector<int>> groups_by_communicator(const Graph& g) {
  std::map<CommUid, std::vector<int>> out;
  for (size_t i = 0; i < g.whole_groups; ++i)
    out[at(g.nodes, g.groups[i].front()).kernel->comm].push_back(static_cast<int>(i));
  return out;
}

void add_incomplete(SlowCollectives& slow, const Graph& g, const Kinds& kinds) {
  std::map<size_t, double> lost_parts;
  for (const auto& [group, lost_part] : slow.operations) lost_parts[kind_of(g, group, kinds)] = lost_part;
  for (size_t i = g.whole_groups; i < g.groups.size(); ++i) {
    const auto group = static_cast<int>(i);
    if (at(g.nodes, g.groups[i].front()).kernel->comm != slow.comm->uid()) continue;
    if (const auto it = lost_parts.find(kind_of(g, group, kinds)); it != lost_parts.end())
      slow.operations.push_back({group, it->second});
  }
}

std::vector<CollectiveRound> rounds_of(const Communicator& comm, const std::vector<int>& groups, const Graph& g,
                                       const Timeline& t, const Kinds& kinds, MachineClocks& clocks) {
  std::vector<CollectiveRound> out;
  const auto machine = [&](Rank rank) {
    const RankModel* const r = comm.rank(rank);
    return r && r->process ? clocks.number_of(r->process->id.boot_id) : -1;
  };
  for (int group : groups) {
    const std::vector<int>& members = at(g.groups, group);
    const Kernel& first = *at(g.nodes, members.front()).kernel;
    CollectiveRound round;
    round.group = group;
    round.kind = kind_of(g, group, kinds);
    round.op = first.op;
    round.signature = first.signature;
    round.begins_ns.resize(static_cast<size_t>(comm.rank_count()), NAN);
    round.posted_ns.resize(round.begins_ns.size(), NAN);
    double longest_ns = 0, started_ns = -INFINITY, ended_ns = -INFINITY;
    for (int member : members) {
      const Node& n = at(g.nodes, member);
      started_ns = std::max(started_ns, n.begin_ns), ended_ns = std::max(ended_ns, n.end_ns);
      const auto r = static_cast<size_t>(n.kernel->rank.value);
      // It may have reported them before it was known that the communicator has fewer ranks.
      if (r >= round.begins_ns.size()) continue;
      longest_ns = std::max(longest_ns, static_cast<double>(n.kernel->end_ns - n.kernel->begin_ns));
      round.begins_ns[r] = round.posted_ns[r] = n.begin_ns;
      if (n.queued_ns > 0) round.posted_ns[r] = std::clamp(n.launch_ns(), free_since_ns(g, n), n.begin_ns);
    }
    round.transfer_ns = std::max(0.0, ended_ns - started_ns);
    if (const auto* const rows = first.replay == 0 ? t.links(first.comm, first.op) : nullptr) {
      round.links = match_links(*rows, longest_ns, machine);
      for (const auto& [rank, row] : *rows)
        if (row.direction == abi::Direction::send && row.peer >= comm.rank_count())
          round.out_of_sight.insert(rank.value);
      std::erase_if(round.links, [&](const auto& link) {
        return std::max(link.first.sender, link.first.receiver) >= comm.rank_count();
      });
    }
    out.push_back(std::move(round));
  }
  std::vector<Links*> links;
  for (CollectiveRound& round : out) links.push_back(&round.links);
  clocks.compare(links);
  return out;
}

}  // namespace ccld::decision::whatif
