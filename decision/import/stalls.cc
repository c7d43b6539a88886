#include "decision/import/stalls.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decision/import/rows.h"

namespace ccld::decision::dumps {
namespace {

void note_waiting(Stall& s, int member, const Call& call) {
  s.waiting.push_back(member);
  s.since_ns = std::max(s.since_ns, call.created_ns);
  s.timed_out += call.timed_out ? 1 : 0;
  s.shape = call.shape;
  if (s.frame == 0) s.frame = call.frame;
}

std::optional<Stall> collective_stall(const Job& job, size_t group) {
  const Group& g = job.groups[group];
  std::optional<Stall> found;
  walk_rows(g, [&](const Row& row) {
    const bool in_flight = std::any_of(row.cells.begin(), row.cells.end(),
                                       [](const Cell& c) { return c.call != nullptr && c.call->in_flight(); });
    if (!in_flight) return true;
    Stall& s = found.emplace();
    s.group = group;
    s.sequence = row.sequence;
    s.part = row.part;
    bool runs_somewhere = false;
    for (size_t m = 0; m < row.cells.size(); ++m) {
      const Cell& c = row.cells[m];
      const int member = static_cast<int>(m);
      switch (c.presence) {
        case Presence::called:
          if (!c.call->in_flight()) {
            s.done.push_back(member);
            break;
          }
          note_waiting(s, member, *c.call);
          if (c.call->state == CallState::started)
            runs_somewhere = true;
          else if (g.members[m].times_starts)
            s.unstarted.push_back(member);
          break;
        case Presence::not_called:
        case Presence::part_missing: s.absent.push_back(member); break;
        case Presence::passed: s.done.push_back(member); break;
        case Presence::unsure: s.unsure.push_back(member); break;
        case Presence::no_dump: s.no_dump.push_back(member); break;
      }
    }
    if (!runs_somewhere) s.unstarted.clear();
    return false;
  });
  return found;
}

// Sends and receives between two members, in the order of their calls.
struct Pair {
  std::vector<const Call*> sends, receives;
};

// The ends of a transfer that nobody awaits at the other end, and those where both ends are in it.
class TransferStalls {
 public:
  TransferStalls(const Job& job, size_t group) : job_(job), g_(job.groups[group]), group_(group) {}

  std::vector<Stall> find() {
    std::map<std::pair<int, int>, Pair> pairs;  // sender, receiver
    for (size_t m = 0; m < g_.members.size(); ++m)
      for (const Call& c : g_.members[m].transfers) {
        const Shape& s = job_.shapes[c.shape];
        Pair& pair = pairs[{s.source, s.destination}];
        if (s.type == "send" && s.source == static_cast<int>(m)) pair.sends.push_back(&c);
        if (s.type == "recv" && s.destination == static_cast<int>(m)) pair.receives.push_back(&c);
      }
    for (const auto& [ends, pair] : pairs) look(ends.first, ends.second, pair);
    std::vector<Stall> out;
    for (auto& [awaited, stall] : awaited_) out.push_back(std::move(stall));
    out.insert(out.end(), std::make_move_iterator(both_.begin()), std::make_move_iterator(both_.end()));
    return out;
  }

 private:
  void look(int sender, int receiver, const Pair& pair) {
    const Member& from = g_.members[static_cast<size_t>(sender)];
    const Member& to = g_.members[static_cast<size_t>(receiver)];
    const size_t send = oldest_in_flight(pair.sends), receive = oldest_in_flight(pair.receives);
    const bool sends = send < pair.sends.size(), receives = receive < pair.receives.size();
    if (!sends && !receives) return;
    if (from.complete && to.complete) {
      // Every call is known: the k-th send meets the k-th receive. Whoever runs ahead waits for its oldest call.
      if (sends && send >= pair.receives.size()) return wait_for(sender, receiver, *pair.sends[send], to);
      if (receives && receive >= pair.sends.size()) return wait_for(receiver, sender, *pair.receives[receive], from);
    } else if (sends != receives) {
      // Older calls are lost, but whoever has a call in flight has its newest ones.
      return receives ? wait_for(receiver, sender, *pair.receives[receive], from)
                      : wait_for(sender, receiver, *pair.sends[send], to);
    }
    if (!sends || !receives) return;  // a small send may end before its receive is called
    Stall& s = both_.emplace_back();
    s.group = group_;
    s.transfer = true;
    note_waiting(s, receiver, *pair.receives[receive]);
    note_waiting(s, sender, *pair.sends[send]);
  }

  // Its place; the number of calls: none is.
  static size_t oldest_in_flight(const std::vector<const Call*>& calls) {
    return static_cast<size_t>(std::find_if(calls.begin(), calls.end(), [](const Call* c) { return c->in_flight(); }) -
                               calls.begin());
  }

  void wait_for(int waiter, int awaited, const Call& call, const Member& peer) {
    const auto [at, is_new] = awaited_.try_emplace(awaited);
    Stall& s = at->second;
    if (is_new) {
      s.group = group_;
      s.transfer = true;
      (peer.has_dump ? s.absent : s.no_dump).push_back(awaited);
      const bool sends = job_.shapes[call.shape].source == waiter;
      s.missing_call = absl::StrCat(sends ? "recv from rank " : "send to rank ", waiter);
    }
    note_waiting(s, waiter, call);
  }

  const Job& job_;
  const Group& g_;
  size_t group_;
  std::map<int, Stall> awaited_;
  std::vector<Stall> both_;
};

}  // namespace

std::vector<Stall> find_stalls(const Job& job) {
  std::vector<Stall> out;
  for (size_t g = 0; g < job.groups.size(); ++g) {
    if (auto stall = collective_stall(job, g)) out.push_back(*std::move(stall));
    if (!job.groups[g].has_transfers) continue;
    std::vector<Stall> transfers = TransferStalls(job, g).find();
    out.insert(out.end(), std::make_move_iterator(transfers.begin()), std::make_move_iterator(transfers.end()));
  }
  return out;
}

}  // namespace ccld::decision::dumps
