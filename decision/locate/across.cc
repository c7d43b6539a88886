#include "decision/locate/across.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

using Kind = WaitNode::Kind;

// Causes that one place is remembered to wait for.
constexpr size_t causes_each_max = 4;
// So long after a process was heard last, what waits for it has come to rest.
constexpr Nanoseconds comes_to_rest_ns = 5 * ns_per_s;

// When the first of those that wait there began to: of so many ranks, spread over all.
constexpr size_t waiting_looked_max = 4096;
Nanoseconds waiting_since_ns(const Standing& s) {
  Nanoseconds since = INT64_MAX;
  const auto& ranks = s.comm->ranks();
  const size_t stride = ranks.size() / waiting_looked_max + 1;
  if (s.view.replay == 0)
    for (size_t i = 0; i < ranks.size(); i += stride)
      if (const InFlightOp* o = find_op(ranks[i], s.view.key()))
        since = std::min(since, ranks[i].sampled_ns - static_cast<Nanoseconds>(o->enter_age_ms) * ns_per_ms);
  return since == INT64_MAX ? s.comm->moved_ns() : since;
}

// One of the places where an absent actor is waited for.
struct Place {
  size_t standing;
  bool calls;
  bool left_inside;  // it had begun it, or at least called it
  bool usual;        // where it would usually have gone on
  Nanoseconds since_ns;
  Rank rank;
  bool better_than(const Place& o) const {
    return std::make_tuple(!left_inside, !usual, calls, since_ns, standing) <
           std::make_tuple(!o.left_inside, !o.usual, o.calls, o.since_ns, o.standing);
  }
};

// Causes inside that are the same thing seen from two communicators: the same GPUs, or links between the same hosts.
std::string identity(const Standing& s) {
  std::set<std::string> parts;
  for (const Culprit& c : s.finding.culprits) {
    if (c.component == Component::link || c.component == Component::nic) {
      std::string a = c.host, b;
      if (c.peer)
        if (const RankModel* peer = s.comm->rank(*c.peer)) b = peer->host;
      if (a == b) absl::StrAppend(&a, " ", c.pid), absl::StrAppend(&b, " ", c.peer ? c.peer->value : -1);
      if (b < a) std::swap(a, b);
      parts.insert(absl::StrCat("link|", a, "|", b, "|", c.net_name));
    } else {
      parts.insert(absl::StrCat(name(c.component), "|", c.host, "|", c.pid, "|", c.cuda_device));
    }
  }
  std::string all;
  for (const std::string& p : parts) absl::StrAppend(&all, p, ";");
  return all;
}

class Causes {
 public:
  Causes(const WaitGraph& graph, const std::vector<Standing>& standings)
      : graph_(graph), nodes_(graph.nodes()), standings_(standings), groups_(graph.groups()) {}

  std::vector<Cause> run() {
    summarize();
    find_places();
    ends();
    merge();
    attach();
    std::erase_if(causes_, [](const Cause& c) { return c.standing.empty(); });
    return std::move(causes_);
  }

 private:
  struct Group {
    std::vector<int> members;
    bool end = true, known = true, complete = true;
    Nanoseconds moved_ns = 0;
    std::vector<size_t> causes;
  };

  // Groups come in an order in which what they lead to is summarized before.
  void summarize() {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      groups_[nodes_[n].group].members.push_back(static_cast<int>(n));
      if (nodes_[n].kind == Kind::making) makings_.push_back(static_cast<int>(n));
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      for (int n : group.members) {
        if (nodes_[n].kind == Kind::unknown) group.known = false;
        if (nodes_[n].kind == Kind::actor && nodes_[n].life == Life::not_watched) group.known = false;
        group.complete &= nodes_[n].complete;
        group.moved_ns = std::max(group.moved_ns, nodes_[n].moved_ns);
        for (int to : nodes_[n].out) {
          if (nodes_[to].group == static_cast<int>(g)) continue;
          const Group& next = groups_[nodes_[to].group];
          group.end = false;
          group.complete &= next.complete;
          group.moved_ns = std::max(group.moved_ns, next.moved_ns);
        }
      }
    }
  }

  bool is_end(int n) const { return groups_[nodes_[n].group].end && groups_[nodes_[n].group].known; }

  void find_places() {
    best_place_.resize(nodes_.size());
    std::vector<Nanoseconds> since(standings_.size(), -1);
    // Only where there is a choice, and not for whole clusters: it is a tie-break.
    constexpr int usual_max = 256;
    int usual_looked = 0;
    std::vector<int> wanted_at(nodes_.size());
    std::vector<CommUid> usual(nodes_.size());
    std::vector<bool> usual_known(nodes_.size());
    for (const WaitNode& site : nodes_)
      if (site.kind == Kind::operation || site.kind == Kind::calls)
        for (int a : site.out) ++wanted_at[a];
    for (const WaitNode& site : nodes_) {
      if (site.kind != Kind::operation && site.kind != Kind::calls) continue;
      const auto i = static_cast<size_t>(site.standing);
      const Standing& s = standings_[i];
      for (int a : site.out) {
        const WaitNode& actor = nodes_[a];
        if (actor.kind != Kind::actor || !is_end(a) || groups_[actor.group].members.size() > 1) continue;
        if (!usual_known[a] && wanted_at[a] > 1 && usual_looked < usual_max) {
          ++usual_looked;
          usual_known[a] = true;
          if (actor.process) usual[a] = usual_next(actor.process->kernels, actor.device);
        }
        Place p{i, site.kind == Kind::calls, false, usual[a] == s.comm->uid(), 0, graph_.rank_of(actor, site.standing)};
        if (p.calls) {
          const P2pWait* w = graph_.wait_for(site, actor);
          if (!w) continue;
          p.since_ns = w->since_ns;
          p.rank = w->peer;
        } else {
          if (since[i] < 0) since[i] = waiting_since_ns(s);
          p.since_ns = since[i];
          if (p.rank.value < 0) p.rank = never_heard(s, actor);
          if (p.rank.value < 0) continue;
          const Progress progress = s.view.ranks[p.rank.value].progress;
          p.left_inside = progress == Progress::begun || progress == Progress::called;
        }
        if (s.comm->is_barrier(s.view.signature, false) && !p.calls)
          if (const auto [it, added] = barrier_since_.try_emplace(a, p.since_ns); !added)
            it->second = std::min(it->second, p.since_ns);
        std::optional<Place>& best = best_place_[a];
        if (!best || p.better_than(*best)) best = p;
      }
    }
    find_open_calls();
  }

  // An end that is inside a call which it does not launch, perhaps on a communicator where nobody waits for it yet.
  void find_open_calls() {
    for (size_t a = 0; a < nodes_.size(); ++a) {
      std::optional<Place>& best = best_place_[a];
      if (!best || best->left_inside || !nodes_[a].process) continue;
      for (const ProcessModel::Membership& m : nodes_[a].process->memberships) {
        const int i = graph_.index_of(m.comm);
        if (i < 0 || graph_.rank_of(nodes_[a], i) != m.rank) continue;
        const Standing& s = standings_[i];
        const bool collective = s.located && !s.view.p2p && s.view.ranks[m.rank.value].progress == Progress::called;
        if (!collective && !open_call(*s.comm->rank(m.rank))) continue;
        best = Place{static_cast<size_t>(i), !collective, true, false, waiting_since_ns(s), m.rank};
        break;
      }
    }
  }

  Rank never_heard(const Standing& s, const WaitNode& actor) const {
    if (actor.process) return Rank{-1};
    for (Rank r : s.finding.wanted)
      if (const RankModel* m = s.comm->rank(r); m && !m->process) return r;
    return Rank{-1};
  }

  size_t add(Cause c, const Group& g) {
    c.moved_ns = g.moved_ns;
    c.complete = g.complete;
    causes_.push_back(std::move(c));
    return causes_.size() - 1;
  }

  void ends() {
    std::map<std::pair<size_t, bool>, size_t> absent;  // by place
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      if (!group.end || !group.known) continue;
      const WaitNode& first = nodes_[group.members[0]];
      Cause c;
      if (group.members.size() > 1) {
        if (has_place(group)) group.causes.push_back(add(cycle(group), group));
      } else if (first.kind == Kind::making) {
        c.kind = CauseKind::making;
        c.making = first.standing;
        group.causes.push_back(add(std::move(c), group));
      } else if (first.kind == Kind::operation) {
        c.home = static_cast<size_t>(first.standing);
        group.causes.push_back(add(std::move(c), group));
      } else if (const std::optional<Place>& p = best_place_[group.members[0]]; first.kind == Kind::actor && p) {
        const auto [it, added] = absent.try_emplace({p->standing, p->calls}, causes_.size());
        if (added) {
          c.kind = CauseKind::absent;
          c.home = p->standing;
          c.calls = p->calls;
          add(std::move(c), group);
          lives_.resize(causes_.size());
        }
        Cause& cause = causes_[it->second];
        cause.ranks.push_back(p->rank);
        const auto barrier = barrier_since_.find(group.members[0]);
        const bool there_first = barrier != barrier_since_.end() && !p->left_inside && barrier->second <= p->since_ns;
        cause.barrier = (added || cause.barrier) && there_first;
        cause.moved_ns = std::max(cause.moved_ns, group.moved_ns);
        cause.complete &= group.complete;
        lives_[it->second].push_back(&first);
        group.causes.push_back(it->second);
      } else if (const int making = making_without(group.members[0]); making >= 0) {
        c.kind = CauseKind::making;
        c.making = making;
        group.causes.push_back(add(std::move(c), group));
      }
    }
    lives_.resize(causes_.size());
    for (size_t i = 0; i < causes_.size(); ++i) {
      Cause& c = causes_[i];
      std::sort(c.ranks.begin(), c.ranks.end());
      c.ranks.erase(std::unique(c.ranks.begin(), c.ranks.end()), c.ranks.end());
      const Nanoseconds moved_ns = standings_[c.home].comm->moved_ns();
      c.fell_silent = !lives_[i].empty() && std::all_of(lives_[i].begin(), lives_[i].end(), [&](const WaitNode* a) {
        return a->process && lost(a->life) && moved_ns - a->process->heard_ns <= comes_to_rest_ns;
      });
    }
  }

  // Operations or calls, not makings alone.
  bool has_place(const Group& group) const {
    return std::any_of(group.members.begin(), group.members.end(),
                       [&](int n) { return nodes_[n].kind == Kind::operation || nodes_[n].kind == Kind::calls; });
  }

  // A making that the actor is missed in, and nowhere else; -1: none.
  int making_without(int actor) const {
    if (nodes_[actor].kind != Kind::actor) return -1;
    for (int m : makings_)
      if (const WaitNode& n = nodes_[m]; std::find(n.out.begin(), n.out.end(), actor) != n.out.end()) return n.standing;
    return -1;
  }

  // A shortest way from a site of the group back to itself.
  Cause cycle(const Group& group) {
    int start = -1;
    for (int n : group.members)
      if ((nodes_[n].kind == Kind::operation || nodes_[n].kind == Kind::calls) &&
          (start < 0 || std::make_tuple(standings_[nodes_[n].standing].comm->uid(), nodes_[n].rank) <
                            std::make_tuple(standings_[nodes_[start].standing].comm->uid(), nodes_[start].rank)))
        start = n;
    std::map<int, int> came_from;
    std::vector<int> queue{start};
    bool closed = false;
    for (size_t i = 0; i < queue.size() && !closed; ++i)
      for (int to : nodes_[queue[i]].out) {
        if (nodes_[to].group != nodes_[start].group || (to != start && came_from.contains(to))) continue;
        came_from[to] = queue[i];
        if (to == start) {
          closed = true;
          break;
        }
        queue.push_back(to);
      }
    std::vector<int> way;  // start, actor, site, actor, ..., start
    for (int n = start; closed;) {
      way.push_back(n);
      n = came_from.at(n);
      if (n == start) break;
    }
    way.push_back(start);
    std::reverse(way.begin(), way.end());
    Cause c;
    c.kind = CauseKind::cycle;
    c.home = static_cast<size_t>(nodes_[start].standing);
    // way: site 0, actor 0 (wanted there, waits at site 1), site 1, ...
    for (size_t i = 1; i + 1 < way.size(); i += 2) {
      const WaitNode& actor = nodes_[way[i]];
      const WaitNode& site = nodes_[way[i + 1]];
      const WaitNode& next = nodes_[i + 2 < way.size() ? way[i + 2] : way[1]];
      CycleStep step;
      if (site.kind == Kind::making) {
        const MakingWait& m = graph_.making(site.standing);
        step.comm_name = m.name;
        step.rank = rank_among(m.waiting, actor);
        step.waits_for = rank_among(m.missing, next);
      } else {
        const Standing& s = standings_[site.standing];
        step.comm = s.comm->uid();
        step.comm_name = s.comm->name();
        step.op = site.kind == Kind::operation ? s.view.op : OpSeq{};
        step.rank = graph_.rank_of(actor, site.standing);
        step.waits_for = graph_.rank_of(next, site.standing);
      }
      step.cuda_device = actor.device;
      if (actor.process) {
        step.host = actor.process->id.host;
        step.pid = actor.process->id.pid;
      }
      c.cycle.push_back(std::move(step));
    }
    for (int n : group.members)
      if (nodes_[n].kind == Kind::actor)
        if (const Rank r = graph_.rank_of(nodes_[n], static_cast<int>(c.home)); r.value >= 0) c.ranks.push_back(r);
    return c;
  }

  static Rank rank_among(const std::vector<MakingWait::Member>& members, const WaitNode& actor) {
    for (const MakingWait::Member& m : members)
      if (m.process == actor.process && m.device == actor.device) return m.rank;
    return Rank{-1};
  }

  void join(size_t from, size_t into) {
    if (from == into || merged_[from] != from) return;
    merged_[from] = into;
    causes_[into].moved_ns = std::max(causes_[into].moved_ns, causes_[from].moved_ns);
  }

  void merge() {
    merged_.resize(causes_.size());
    for (size_t i = 0; i < causes_.size(); ++i) merged_[i] = i;
    std::map<std::string, size_t> inside, hosts;
    std::map<const HostModel*, size_t> lost_on;
    for (const std::vector<const WaitNode*>& actors : lives_)
      for (const WaitNode* a : actors)
        if (a->process && lost(a->life)) ++lost_on[a->process->host];
    const auto earlier = [&](size_t a, size_t b) {
      const Nanoseconds x = standings_[causes_[a].home].comm->moved_ns(),
                        y = standings_[causes_[b].home].comm->moved_ns();
      return x != y ? x < y : a < b;
    };
    const auto same = [&](std::map<std::string, size_t>& known, const std::string& key, size_t i) {
      const auto [it, added] = known.try_emplace(key, i);
      if (added) return;
      if (earlier(i, it->second))
        join(it->second, i), it->second = i;
      else
        join(i, it->second);
    };
    for (size_t i = 0; i < causes_.size(); ++i) {
      if (causes_[i].kind == CauseKind::inside) {
        const std::string key = identity(standings_[causes_[i].home]);
        if (!key.empty()) same(inside, key, i);
      } else if (causes_[i].kind == CauseKind::absent && !lives_[i].empty() && lives_[i][0]->process) {
        const ProcessModel& first = *lives_[i][0]->process;
        const bool whole_host = lost_on[first.host] >= 2 && (lives_[i][0]->life == Life::host_silent ||
                                                             lost_on[first.host] >= first.host->processes);
        const bool only = std::all_of(lives_[i].begin(), lives_[i].end(),
                                      [&](const WaitNode* a) { return a->process && a->process->host == first.host; });
        if (whole_host && only) same(hosts, absl::StrCat(first.id.host, "|", first.id.boot_id), i);
      }
    }
    // Whoever else of a lost host is missed at the same place belongs to it.
    for (size_t i = 0; i < causes_.size(); ++i) {
      if (merged_[i] == i || causes_[i].kind != CauseKind::absent) continue;
      Cause& into = causes_[final_of(i)];
      const Standing& home = standings_[into.home];
      if (into.calls) continue;
      for (const WaitNode* a : lives_[i]) {
        const Rank r = graph_.rank_of(*a, static_cast<int>(into.home));
        if (r.value >= 0 &&
            std::find(home.finding.wanted.begin(), home.finding.wanted.end(), r) != home.finding.wanted.end())
          into.ranks.push_back(r);
      }
    }
    for (Cause& c : causes_) {
      std::sort(c.ranks.begin(), c.ranks.end());
      c.ranks.erase(std::unique(c.ranks.begin(), c.ranks.end()), c.ranks.end());
    }
  }

  size_t final_of(size_t cause) const {
    while (merged_[cause] != cause) cause = merged_[cause];
    return cause;
  }

  void attach() {
    for (Group& group : groups_) {
      for (int n : group.members)
        for (int to : nodes_[n].out)
          for (size_t c : groups_[nodes_[to].group].causes)
            if (group.causes.size() < causes_each_max &&
                std::find(group.causes.begin(), group.causes.end(), c) == group.causes.end())
              group.causes.push_back(c);
    }
    for (const WaitNode& n : nodes_) {
      if (n.kind == Kind::making)
        for (size_t c : groups_[n.group].causes)
          if (Cause& cause = causes_[final_of(c)]; cause.making != n.standing)
            cause.makings.push_back(static_cast<size_t>(n.standing));
      if (n.kind != Kind::operation && n.kind != Kind::calls) continue;
      for (size_t c : groups_[n.group].causes) causes_[final_of(c)].standing.push_back(static_cast<size_t>(n.standing));
    }
    for (Cause& c : causes_) {
      std::sort(c.standing.begin(), c.standing.end());
      c.standing.erase(std::unique(c.standing.begin(), c.standing.end()), c.standing.end());
    }
    for (size_t i = 0; i < causes_.size(); ++i)
      if (merged_[i] != i) causes_[i].standing.clear();
  }

  const WaitGraph& graph_;
  const std::vector<WaitNode>& nodes_;
  const std::vector<Standing>& standings_;
  std::vector<Group> groups_;
  std::vector<int> makings_;                             // nodes
  std::vector<std::optional<Place>> best_place_;         // by node
  absl::flat_hash_map<int, Nanoseconds> barrier_since_;  // by node: since when it is missed in a barrier
  std::vector<Cause> causes_;
  std::vector<std::vector<const WaitNode*>> lives_;  // by cause: the actors of an absent one
  std::vector<size_t> merged_;
};

}  // namespace

std::vector<Cause> find_causes(const WaitGraph& graph, const std::vector<Standing>& standings) {
  return Causes(graph, standings).run();
}

CommUid usual_next(const KernelLog& log, int device) {
  const std::vector<CommUid> order = log.order(device);
  if (order.size() < 4) return {};
  const size_t last = order.size() - 1;
  size_t best = 0, best_length = 0;
  for (size_t end = last; end-- > 0;) {  // the newest of equals wins
    size_t length = 0;
    while (length <= end && order[end - length] == order[last - length]) ++length;
    if (length > best_length) best = end, best_length = length;
  }
  // A step or two alike mean nothing.
  return best_length >= 3 ? order[best + 1] : CommUid{};
}

}  // namespace ccld::decision
