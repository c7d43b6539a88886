#include "decision/locate/wait_graph.h"

#include <algorithm>

namespace ccld::decision {

using Kind = WaitNode::Kind;

WaitGraph::WaitGraph(const std::vector<Stall>& stalls, const Unheard& unheard,
                     const std::vector<InitWait>& initializations, const ProcessTable& processes,
                     const FindCommunicator& find)
    : stalls_(stalls),
      unheard_(unheard),
      initializations_(initializations),
      processes_(processes),
      find_(find),
      unseen_(find),
      wanted_(stalls.size()) {
  for (size_t i = 0; i < initializations.size(); ++i)
    for (const InitWait::Member& m : initializations[i].waiting)
      makes_[{m.process, m.device}].push_back(static_cast<int>(i));
  for (size_t i = 0; i < stalls.size(); ++i) {
    const Stall& s = stalls[i];
    by_comm_[s.comm->uid()] = static_cast<int>(i);
    if (!s.located) continue;
    wanted_[i].resize(s.comm->ranks().size());
    for (Rank r : s.finding.wanted)
      if (s.comm->rank(r)) wanted_[i][r.value] = true;
  }
  for (size_t i = 0; i < stalls.size(); ++i) {
    const Stall& s = stalls[i];
    if (s.located) node(Kind::operation, static_cast<int>(i), Rank{-1});
    for (const P2pWait& w : s.calls) node(Kind::calls, static_cast<int>(i), w.waiter);
  }
  if (!stalls.empty())
    for (size_t i = 0; i < initializations.size(); ++i) node(Kind::initialization, static_cast<int>(i), Rank{-1});
  for (size_t n = 0; n < nodes_.size(); ++n) expand(static_cast<int>(n));
  find_groups();
}

int WaitGraph::node(Kind kind, int stall, Rank rank) {
  const int64_t place = kind == Kind::unknown          ? -1
                        : kind == Kind::initialization ? -2 - static_cast<int64_t>(stall)
                                                       : static_cast<int64_t>(stall) * 2 + (kind == Kind::calls);
  const auto [it, added] =
      sites_.try_emplace({place, kind == Kind::calls ? rank.value : -1}, static_cast<int>(nodes_.size()));
  if (added) {
    WaitNode& n = nodes_.emplace_back();
    n.kind = kind;
    n.stall = stall;
    n.rank = rank;
    n.complete = kind != Kind::unknown;
  }
  return it->second;
}

int WaitGraph::actor(int stall, Rank rank) {
  const Communicator& comm = *stalls_[stall].comm;
  const RankModel& r = *comm.rank(rank);
  const std::pair<const void*, int64_t> key = r.process ? std::pair<const void*, int64_t>{r.process, r.gpu()}
                                                        : std::pair<const void*, int64_t>{&comm, -2 - rank.value};
  const auto [it, added] = actors_.try_emplace(key, static_cast<int>(nodes_.size()));
  if (!added) return it->second;
  WaitNode& n = nodes_.emplace_back();
  n.kind = Kind::actor;
  n.process = r.process;
  n.device = r.gpu();
  if (!r.process) n.stall = stall, n.rank = rank;
  n.life = life_of(r, processes_);
  n.moved_ns = r.moved_ns;
  n.complete = n.life == Life::well;
  return it->second;
}

int WaitGraph::actor(const ProcessModel& process, int device) {
  const auto [it, added] = actors_.try_emplace({&process, device}, static_cast<int>(nodes_.size()));
  if (!added) return it->second;
  WaitNode& n = nodes_.emplace_back();
  n.kind = Kind::actor;
  n.process = &process;
  n.device = device;
  n.life = life_of(process, processes_);
  n.complete = n.life == Life::well;
  return it->second;
}

Rank WaitGraph::rank_of(const WaitNode& actor, int stall) const {
  if (!actor.process) return actor.stall == stall ? actor.rank : Rank{-1};
  const Communicator& comm = *stalls_[stall].comm;
  for (const ProcessModel::Membership& m : actor.process->memberships) {
    if (m.comm != comm.uid()) continue;
    const RankModel* r = comm.rank(m.rank);
    if (r && r->process == actor.process && r->gpu() == actor.device) return m.rank;
  }
  return Rank{-1};
}

std::pair<size_t, size_t> WaitGraph::calls_of(int stall, Rank rank) const {
  const std::vector<P2pWait>& calls = stalls_[stall].calls;
  const auto from =
      std::lower_bound(calls.begin(), calls.end(), rank, [](const P2pWait& w, Rank r) { return w.waiter < r; });
  const auto to = std::upper_bound(from, calls.end(), rank, [](Rank r, const P2pWait& w) { return r < w.waiter; });
  return {static_cast<size_t>(from - calls.begin()), static_cast<size_t>(to - calls.begin())};
}

const P2pWait* WaitGraph::wait_for(const WaitNode& site, const WaitNode& actor) const {
  const Rank peer = rank_of(actor, site.stall);
  const auto [from, to] = calls_of(site.stall, site.rank);
  for (size_t i = from; i < to; ++i)
    if (stalls_[site.stall].calls[i].peer == peer) return &stalls_[site.stall].calls[i];
  return nullptr;
}

bool WaitGraph::waits_in_operation(int stall, Rank rank) const {
  const Stall& s = stalls_[stall];
  if (!s.located || s.view.p2p || wanted_[stall][rank.value]) return false;
  const Progress p = s.view.ranks[rank.value].progress;
  // What it has called after the operation that hangs waits behind it.
  if (p == Progress::done) return s.comm->rank(rank)->in_flight();
  // What is called and not launched hangs in the call; only a first one may need the others (connections).
  return (p == Progress::called && s.view.warmup) || p == Progress::launched || p == Progress::begun;
}

const RankModel* WaitGraph::rank_on(const ProcessModel::Membership& m, const ProcessModel& process, int device) const {
  const int stall = index_of(m.comm);
  const Communicator* const comm = stall >= 0 ? stalls_[stall].comm : find_(m.comm);
  const RankModel* const r = comm ? comm->rank(m.rank) : nullptr;
  return r && r->process == &process && r->gpu() == device ? r : nullptr;
}

// To those that have not made the call, if there are some; and to what is not known, for it may have ended.
void WaitGraph::add_unseen(const ProcessModel::Membership& m, const RankModel& r, std::vector<int>& out) {
  const Communicator& comm = *find_(m.comm);
  const UnseenWaits::Wait& wait = unseen_.of(comm, r);
  if (!wait.possible) return;
  out.push_back(node(Kind::unknown, -1, Rank{-1}));
  for (Rank behind : wait.behind)
    if (const RankModel& other = *comm.rank(behind); other.process) out.push_back(actor(*other.process, other.gpu()));
}

// Stalls of the communicators by which the process left.
std::vector<int> WaitGraph::broken_of(const ProcessModel& process) const {
  std::vector<int> out;
  for (const ProcessModel::Membership& m : process.memberships)
    if (const auto it = by_comm_.find(m.comm);
        it != by_comm_.end() && stalls_[it->second].located && processes_.departures().is_broken(m.comm))
      out.push_back(it->second);
  return out;
}

void WaitGraph::expand(int index) {
  // Nodes may move while others are added.
  const Kind kind = nodes_[index].kind;
  const int at = nodes_[index].stall;
  std::vector<int> out;
  if (kind == Kind::operation) {
    for (Rank r : stalls_[at].finding.wanted)
      if (stalls_[at].comm->rank(r)) out.push_back(actor(at, r));
    // Nobody has said yet how many ranks it has: others may be missing.
    if (!stalls_[at].comm->rank_count_known()) out.push_back(node(Kind::unknown, -1, Rank{-1}));
  } else if (kind == Kind::calls) {
    const auto [from, to] = calls_of(at, nodes_[index].rank);
    for (size_t i = from; i < to; ++i) {
      const P2pWait& w = stalls_[at].calls[i];
      switch (w.side) {
        case PeerSide::inside:
          out.push_back(stalls_[at].located && stalls_[at].view.p2p ? node(Kind::operation, at, Rank{-1})
                                                                    : node(Kind::unknown, -1, Rank{-1}));
          break;
        case PeerSide::unknown: out.push_back(node(Kind::unknown, -1, Rank{-1})); break;
        default: out.push_back(actor(at, w.peer)); break;
      }
    }
  } else if (kind == Kind::initialization) {
    for (const InitWait::Member& m : initializations_[at].missing) out.push_back(actor(*m.process, m.device));
  } else if (kind == Kind::actor && nodes_[index].process) {
    const ProcessModel& process = *nodes_[index].process;
    const int device = nodes_[index].device;
    Life life = nodes_[index].life;
    bool complete = nodes_[index].complete, outdated = false;
    for (const ProcessModel::Membership& m : process.memberships) {
      const RankModel* r = rank_on(m, process, device);
      if (!r) continue;
      nodes_[index].moved_ns = std::max(nodes_[index].moved_ns, r->moved_ns);
      const int stall = index_of(m.comm);
      if (stall < 0) {
        outdated |= unheard_.contains(m.comm) && r->waiting();
        add_unseen(m, *r, out);
        continue;
      }
      if (lost(life_of(*r, processes_))) life = life_of(*r, processes_);
      if (processes_.newest_ns() - sampled_at(*r) > processes_.silent_limit_ns()) {
        complete = false;
        outdated |= r->has_last;
      }
      if (r->last.p2p_total > r->last.p2p.size()) complete = false;
      if (waits_in_operation(stall, m.rank)) out.push_back(node(Kind::operation, stall, Rank{-1}));
      const auto [from, to] = calls_of(stall, m.rank);
      if (from != to) out.push_back(node(Kind::calls, stall, m.rank));
    }
    if (const auto makes = makes_.find({&process, device}); makes != makes_.end())
      for (int m : makes->second) out.push_back(node(Kind::initialization, m, Rank{-1}));
    if (life == Life::left) {
      for (int broken : broken_of(process)) out.push_back(node(Kind::operation, broken, Rank{-1}));
    } else if (lost(life)) {
      out.clear();
    }
    nodes_[index].life = life;
    nodes_[index].complete = complete && !lost(life);
    nodes_[index].outdated = outdated && !lost(life);
  }
  nodes_[index].out = std::move(out);
}

// Tarjan's strongly connected components, without recursion.
void WaitGraph::find_groups() {
  struct Frame {
    int node;
    size_t next;
  };
  const size_t count = nodes_.size();
  std::vector<int> number(count, -1), low(count, 0), open;
  std::vector<Frame> path;
  int numbered = 0;
  for (size_t start = 0; start < count; ++start) {
    if (number[start] >= 0) continue;
    path.push_back({static_cast<int>(start), 0});
    while (!path.empty()) {
      const int n = path.back().node;
      if (path.back().next == 0) {
        number[n] = low[n] = numbered++;
        open.push_back(n);
      }
      if (path.back().next < nodes_[n].out.size()) {
        const int to = nodes_[n].out[path.back().next++];
        if (number[to] < 0)
          path.push_back({to, 0});
        else if (nodes_[to].group < 0)
          low[n] = std::min(low[n], number[to]);
        continue;
      }
      if (low[n] == number[n]) {
        int member;
        do {
          member = open.back();
          open.pop_back();
          nodes_[member].group = groups_;
        } while (member != n);
        ++groups_;
      }
      path.pop_back();
      if (!path.empty()) low[path.back().node] = std::min(low[path.back().node], low[n]);
    }
  }
}

}  // namespace ccld::decision
