#include "decision/locate/across.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "decision/locate/places.h"
#include "schemas/abi/job.h"

namespace ccld::decision {
namespace {

using Kind = WaitNode::Kind;

// Causes that one place is remembered to wait for.
constexpr size_t causes_each_max = 4;
// So long after a process was heard last, what waits for it has come to rest.
constexpr Nanoseconds comes_to_rest_ns = 5 * ns_per_s;

// Causes inside that are the same thing seen from two communicators: the same GPUs, or links between the same hosts.
std::string identity(const Stall& s) {
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

// Or the same network device, which stands still towards several hosts. Empty: something else.
std::string device_of(const Stall& s) {
  const auto key = [](const Culprit& c) {
    return absl::StrCat("nic|", c.host, "|", c.net_name.empty() ? absl::StrCat(c.pid) : c.net_name);
  };
  const std::vector<Culprit>& culprits = s.finding.culprits;
  const bool one = !culprits.empty() && std::all_of(culprits.begin(), culprits.end(), [&](const Culprit& c) {
    return c.component == Component::nic && key(c) == key(culprits[0]);
  });
  return one ? key(culprits[0]) : "";
}

// By stall: the first one of its job. A job that has no name is what processes connect.
std::vector<size_t> jobs_of(const std::vector<Stall>& stalls) {
  std::vector<size_t> first(stalls.size());
  const auto root = [&](size_t i) {
    while (first[i] != i) i = first[i] = first[first[i]];
    return i;
  };
  std::map<std::string, size_t> by_name;
  std::map<const ProcessModel*, size_t> by_process;
  for (size_t i = 0; i < stalls.size(); ++i) {
    first[i] = i;
    const auto unite = [&](size_t other) {
      const size_t a = root(i), b = root(other);
      first[std::max(a, b)] = std::min(a, b);
    };
    const Communicator& comm = *stalls[i].comm;
    if (abi::is_named(comm.job())) {
      unite(by_name.try_emplace(comm.job(), i).first->second);
      continue;
    }
    for (const RankModel& r : comm.ranks())
      if (r.process) unite(by_process.try_emplace(r.process, i).first->second);
  }
  for (size_t i = 0; i < stalls.size(); ++i) first[i] = root(i);
  return first;
}

class Causes {
 public:
  Causes(const WaitGraph& graph, const std::vector<Stall>& stalls)
      : graph_(graph), nodes_(graph.nodes()), stalls_(stalls), groups_(graph.groups()) {}

  std::vector<Cause> run() {
    summarize();
    ends();
    merge();
    attach();
    std::erase_if(causes_, [](const Cause& c) { return c.stalls.empty(); });
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
      if (nodes_[n].kind == Kind::initialization) initializations_.push_back(static_cast<int>(n));
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      for (int n : group.members) {
        if (nodes_[n].kind == Kind::unknown) group.known = false;
        // Of a process that left something was the reason.
        if (nodes_[n].kind == Kind::actor &&
            (nodes_[n].life == Life::not_watched || (nodes_[n].life == Life::left && nodes_[n].out.empty())))
          group.known = false;
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

  // Actors that wait for nobody, as far as is known, and are in no circle.
  std::vector<bool> lone_ends() const {
    std::vector<bool> ends(nodes_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Group& group = groups_[nodes_[n].group];
      ends[n] = nodes_[n].kind == Kind::actor && group.end && group.known && group.members.size() == 1;
    }
    return ends;
  }

  size_t add(Cause c, const Group& g) {
    c.moved_ns = g.moved_ns;
    c.complete = g.complete;
    causes_.push_back(std::move(c));
    return causes_.size() - 1;
  }

  void ends() {
    const Places places(graph_, stalls_, lone_ends());
    std::map<std::pair<size_t, bool>, size_t> absent;  // by place
    for (size_t g = 0; g < groups_.size(); ++g) {
      Group& group = groups_[g];
      if (!group.end || !group.known) continue;
      const WaitNode& first = nodes_[group.members[0]];
      Cause c;
      if (group.members.size() > 1) {
        if (has_place(group) && is_certain(group)) group.causes.push_back(add(cycle(group), group));
      } else if (first.kind == Kind::initialization) {
        c.kind = CauseKind::initialization;
        c.initialization = first.stall;
        group.causes.push_back(add(std::move(c), group));
      } else if (first.kind == Kind::operation) {
        c.home = static_cast<size_t>(first.stall);
        group.causes.push_back(add(std::move(c), group));
      } else if (const std::optional<Place>& p = places.best(group.members[0]); first.kind == Kind::actor && p) {
        const auto [it, added] = absent.try_emplace({p->stall, p->calls}, causes_.size());
        if (added) {
          c.kind = CauseKind::absent;
          c.home = p->stall;
          c.calls = p->calls;
          add(std::move(c), group);
          lives_.resize(causes_.size());
        }
        Cause& cause = causes_[it->second];
        cause.ranks.push_back(p->rank);
        cause.barrier = (added || cause.barrier) && places.behind_barrier(group.members[0]);
        cause.moved_ns = std::max(cause.moved_ns, group.moved_ns);
        cause.complete &= group.complete;
        cause.outdated |= first.outdated;
        lives_[it->second].push_back(&first);
        group.causes.push_back(it->second);
      } else if (const int initialization = initialization_without(group.members[0]); initialization >= 0) {
        c.kind = CauseKind::initialization;
        c.initialization = initialization;
        group.causes.push_back(add(std::move(c), group));
      }
    }
    lives_.resize(causes_.size());
    for (size_t i = 0; i < causes_.size(); ++i) {
      Cause& c = causes_[i];
      std::sort(c.ranks.begin(), c.ranks.end());
      c.ranks.erase(std::unique(c.ranks.begin(), c.ranks.end()), c.ranks.end());
      const Nanoseconds moved_ns = stalls_[c.home].comm->moved_ns();
      c.fell_silent = !lives_[i].empty() && std::all_of(lives_[i].begin(), lives_[i].end(), [&](const WaitNode* a) {
        return a->process && lost(a->life) && moved_ns - a->process->heard_ns <= comes_to_rest_ns;
      });
    }
  }

  // Operations or calls, not initializations alone.
  bool has_place(const Group& group) const {
    return std::any_of(group.members.begin(), group.members.end(),
                       [&](int n) { return nodes_[n].kind == Kind::operation || nodes_[n].kind == Kind::calls; });
  }

  // An initialization that the actor is missed in, and nowhere else; -1: none.
  int initialization_without(int actor) const {
    if (nodes_[actor].kind != Kind::actor) return -1;
    for (int m : initializations_)
      if (const WaitNode& n = nodes_[m]; std::find(n.out.begin(), n.out.end(), actor) != n.out.end()) return n.stall;
    return -1;
  }

  // Who waits for a call that his peer has made and ended waits for nobody: what looks like a circle may be none.
  bool is_certain(const Group& group) const {
    return std::none_of(group.members.begin(), group.members.end(), [&](int n) {
      if (nodes_[n].kind != Kind::calls) return false;
      return std::any_of(nodes_[n].out.begin(), nodes_[n].out.end(), [&](int to) {
        const P2pWait* const w = nodes_[to].group == nodes_[n].group ? graph_.wait_for(nodes_[n], nodes_[to]) : nullptr;
        return w && w->may_have_ended;
      });
    });
  }

  // A shortest way from a site of the group back to itself.
  Cause cycle(const Group& group) {
    int start = -1;
    for (int n : group.members)
      if ((nodes_[n].kind == Kind::operation || nodes_[n].kind == Kind::calls) &&
          (start < 0 || std::make_tuple(stalls_[nodes_[n].stall].comm->uid(), nodes_[n].rank) <
                            std::make_tuple(stalls_[nodes_[start].stall].comm->uid(), nodes_[start].rank)))
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
    c.home = static_cast<size_t>(nodes_[start].stall);
    // way: site 0, actor 0 (wanted there, waits at site 1), site 1, ...
    for (size_t i = 1; i + 1 < way.size(); i += 2) {
      const WaitNode& actor = nodes_[way[i]];
      const WaitNode& site = nodes_[way[i + 1]];
      const WaitNode& next = nodes_[i + 2 < way.size() ? way[i + 2] : way[1]];
      CycleStep step;
      if (site.kind == Kind::initialization) {
        const InitWait& m = graph_.initialization(site.stall);
        step.comm_name = m.name;
        step.rank = rank_among(m.waiting, actor);
        step.waits_for = rank_among(m.missing, next);
      } else {
        const Stall& s = stalls_[site.stall];
        step.comm = s.comm->uid();
        step.comm_name = s.comm->name();
        step.op = site.kind == Kind::operation ? s.view.op : OpSeq{};
        step.rank = graph_.rank_of(actor, site.stall);
        step.waits_for = graph_.rank_of(next, site.stall);
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

  static Rank rank_among(const std::vector<InitWait::Member>& members, const WaitNode& actor) {
    for (const InitWait::Member& m : members)
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
    std::map<std::string, size_t> inside, hosts, never_heard;
    std::vector<size_t> jobs;
    std::map<const HostModel*, size_t> lost_on;
    for (const std::vector<const WaitNode*>& actors : lives_)
      for (const WaitNode* a : actors)
        if (a->process && lost(a->life)) ++lost_on[a->process->host];
    const auto earlier = [&](size_t a, size_t b) {
      const Nanoseconds x = stalls_[causes_[a].home].comm->moved_ns(), y = stalls_[causes_[b].home].comm->moved_ns();
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
        const Stall& home = stalls_[causes_[i].home];
        for (const std::string& key : {identity(home), device_of(home)})
          if (!key.empty()) same(inside, key, i);
      } else if (!lives_[i].empty() &&
                 std::none_of(lives_[i].begin(), lives_[i].end(), [](const WaitNode* a) { return a->process; })) {
        // Of a job, nobody knows whether they are one process, or one host.
        if (jobs.empty()) jobs = jobs_of(stalls_);
        same(never_heard, absl::StrCat(jobs[causes_[i].home]), i);
      } else if (causes_[i].kind == CauseKind::absent && !lives_[i].empty() && lives_[i][0]->process) {
        const ProcessModel& first = *lives_[i][0]->process;
        const bool whole_host = lost_on[first.host] >= 2 && (lives_[i][0]->life == Life::host_silent ||
                                                             lost_on[first.host] >= first.host->processes);
        const bool only = std::all_of(lives_[i].begin(), lives_[i].end(),
                                      [&](const WaitNode* a) { return a->process && a->process->host == first.host; });
        if (whole_host && only) same(hosts, machine_of(first.id), i);
      }
    }
    // Whoever else of a lost host is missed at the same place belongs to it.
    for (size_t i = 0; i < causes_.size(); ++i) {
      if (merged_[i] == i || causes_[i].kind != CauseKind::absent) continue;
      Cause& into = causes_[final_of(i)];
      const Stall& home = stalls_[into.home];
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
      if (n.kind == Kind::initialization)
        for (size_t c : groups_[n.group].causes)
          if (Cause& cause = causes_[final_of(c)]; cause.initialization != n.stall)
            cause.initializations.push_back(static_cast<size_t>(n.stall));
      if (n.kind != Kind::operation && n.kind != Kind::calls) continue;
      for (size_t c : groups_[n.group].causes) causes_[final_of(c)].stalls.push_back(static_cast<size_t>(n.stall));
    }
    for (Cause& c : causes_) {
      std::sort(c.stalls.begin(), c.stalls.end());
      c.stalls.erase(std::unique(c.stalls.begin(), c.stalls.end()), c.stalls.end());
    }
    for (size_t i = 0; i < causes_.size(); ++i)
      if (merged_[i] != i) causes_[i].stalls.clear();
  }

  const WaitGraph& graph_;
  const std::vector<WaitNode>& nodes_;
  const std::vector<Stall>& stalls_;
  std::vector<Group> groups_;
  std::vector<int> initializations_;  // nodes
  std::vector<Cause> causes_;
  std::vector<std::vector<const WaitNode*>> lives_;  // by cause: the actors of an absent one
  std::vector<size_t> merged_;
};

}  // namespace

std::vector<Cause> find_causes(const WaitGraph& graph, const std::vector<Stall>& stalls) {
  return Causes(graph, stalls).run();
}

}  // namespace ccld::decision
