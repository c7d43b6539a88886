#include "decision/whatif/slow_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "decision/measure/middle.h"
#include "decision/whatif/connections.h"

namespace ccld::decision::whatif {
namespace {

using Ends = std::pair<int32_t, int32_t>;  // sender, receiver

struct Connection {
  bool network = false;
  std::vector<Passage> operations;
  StepTimes times;
};
using Connections = std::map<Ends, Connection>;

// The operations of a kind: steps of others are not alike.
struct Kind {
  size_t kind = 0;
  std::vector<const CollectiveRound*> rounds;
  double sum_ns = 0;
};

// Those of which stages are known, the one that takes most of the time first.
std::vector<Kind> kinds_in(const std::vector<CollectiveRound>& rounds) {
  std::map<size_t, Kind> kinds;
  for (const CollectiveRound& r : rounds) {
    if (r.links.empty() || r.transfer_ns <= 0) continue;
    Kind& k = kinds[r.kind];
    k.kind = r.kind;
    k.rounds.push_back(&r);
    k.sum_ns += r.transfer_ns;
  }
  std::vector<Kind> out;
  for (auto& [number, kind] : kinds) out.push_back(std::move(kind));
  std::stable_sort(out.begin(), out.end(), [](const Kind& a, const Kind& b) { return a.sum_ns > b.sum_ns; });
  return out;
}

// Those that enough operations report.
Connections add_up(const Kind& kind, const Settings& settings) {
  Connections out;
  for (const CollectiveRound* round : kind.rounds) {
    double last_ns = -INFINITY;
    for (double ns : round->begins_ns)
      if (!std::isnan(ns)) last_ns = std::max(last_ns, ns);
    std::map<Ends, Passage> passages;
    for (const auto& [edge, i] : round->links) {
      if (i.steps <= 0) continue;
      const double begun_ns = round->begins_ns[static_cast<size_t>(edge.sender)];
      const auto later_ns = [&](double ns) { return std::isfinite(ns - begun_ns) ? ns - begun_ns : 0; };
      const auto receiver = static_cast<size_t>(edge.receiver);
      out[{edge.sender, edge.receiver}].network |= i.net_device >= 0;
      passages[{edge.sender, edge.receiver}].add(
          i, {later_ns(round->begins_ns[receiver]), later_ns(round->posted_ns[receiver]), later_ns(last_ns), true});
    }
    for (const auto& [ends, passage] : passages) {
      out[ends].operations.push_back(passage);
      out[ends].times.add(passage, round->transfer_ns);
    }
  }
  std::erase_if(out, [&](const auto& entry) { return entry.second.times.operations() < settings.slow_rounds_min; });
  return out;
}

// Part of the transfers in which a rank's proxy did not look at its work, beyond what is usual of the others.
std::map<int32_t, double> away_parts(const Connections& connections) {
  std::map<int32_t, double> parts;
  for (const auto& [ends, c] : connections) {
    if (!c.network) continue;
    parts[ends.first] = std::max(parts[ends.first], c.times.sender_away_part());
    parts[ends.second] = std::max(parts[ends.second], c.times.receiver_away_part());
  }
  std::vector<double> all;
  for (const auto& [rank, part] : parts) all.push_back(part);
  const double usual_part = all.empty() ? 0 : middle(all);
  for (auto& [rank, part] : parts) part -= usual_part;
  return parts;
}

bool find_away(const std::map<int32_t, double>& away, const Settings& settings, SlowCollectives& out) {
  for (const auto& [rank, part] : away) {
    if (part < settings.whatif_away_min) continue;
    out.lost_part = std::max(out.lost_part, part);
    out.links.push_back({Rank{rank}, Rank{rank}, Rank{rank}, Component::proxy, 0, part});
  }
  return !out.links.empty();
}

// What a step takes on the faster half of the connections over the network, or of the others, at most: one direction of
// a wire is half of them, so a healthy one is among these.
UsualStep usual_now(const Connections& connections, bool network, size_t& peers) {
  UsualStep usual;
  for (size_t part = 0; part < passage_parts; ++part) {
    std::vector<double> all_ns;
    for (const auto& [ends, c] : connections)
      if (c.network == network) all_ns.push_back(c.times.most_ns(part));
    if (all_ns.empty()) return usual;
    std::sort(all_ns.begin(), all_ns.end());
    peers = (all_ns.size() + 1) / 2;
    all_ns.resize(peers);
    usual.ns[part] = middle(all_ns);
    if (part != to_be_taken) usual.given_after_ns += usual.ns[part];
  }
  return usual;
}

// No more steps than there are slots are under way at a time. So an operation takes at least as long as a step, or if
// there are more steps than slots, as so many times longer. This is what it loses if each of them takes so much longer.
double lost_part(const StepTimes& t, double longer_ns) {
  return std::min(1.0, t.waiting(longer_ns) / std::min(t.steps_per_operation(), slots));
}

// What waits for a late rank is no cause beside what waits longer elsewhere.
void leave_out_waits_for(const std::vector<Rank>& late, std::vector<SlowLink>& links) {
  const auto waits = [&](const SlowLink& l) { return std::find(late.begin(), late.end(), l.receiver) != late.end(); };
  double most = 0;
  for (const SlowLink& l : links)
    if (!waits(l)) most = std::max(most, l.steps);
  std::erase_if(links, [&](const SlowLink& l) { return waits(l) && l.steps < most; });
}

// A proxy is one, however many of its connections show it. What it receives late, or is given late, only seems to be
// slow.
std::vector<SlowLink> put_together(const std::vector<SlowLink>& links) {
  const auto proxy_of = [&](const SlowLink& link) {
    return std::find_if(links.begin(), links.end(), [&](const SlowLink& l) {
      return l.component == Component::proxy &&
             (link.component == Component::proxy ? l.at == link.at : l.at == link.sender || l.at == link.receiver);
    });
  };
  std::vector<SlowLink> out;
  for (const SlowLink& link : links) {
    const auto proxy = proxy_of(link);
    if (proxy == links.end()) {
      out.push_back(link);
      continue;
    }
    const auto known = std::find_if(out.begin(), out.end(), [&](const SlowLink& l) {
      return l.component == Component::proxy && l.at == proxy->at;
    });
    if (known == out.end())
      out.push_back(*proxy);
    else if (link.component == Component::proxy)
      known->sender = known->receiver = known->at, known->steps += link.steps;
  }
  return out;
}

// Health is sampled once a second: threads that are stopped for most of the time are caught at it now and then.
bool had_stopped_threads(const Communicator& comm, Rank rank, Nanoseconds since_ns) {
  const RankModel* r = comm.rank(rank);
  return r && r->process && r->process->threads_stopped_ns > 0 && r->process->threads_stopped_ns >= since_ns;
}

// The connections of a communicator in one kind of operations, with what a step takes there otherwise.
class Look {
 public:
  Look(const Communicator& comm, const Connections& connections, size_t kind, const StepPast& past,
       const std::vector<Rank>& late, Nanoseconds since_ns, const Settings& settings)
      : comm_(comm),
        connections_(connections),
        kind_(kind),
        past_(past),
        late_(late),
        since_ns_(since_ns),
        settings_(settings),
        away_(away_parts(connections)) {
    for (bool network : {false, true}) usual_now_[network] = usual_now(connections, network, peers_[network]);
  }

  // False: nothing takes longer than otherwise.
  bool find(SlowCollectives& out) const {
    if (find_away(away_, settings_, out)) return true;
    const bool slow = find_network(out);
    if (out.links.empty() && late_.empty()) find_gpu(out);
    return slow || !out.links.empty();
  }

 private:
  std::optional<UsualStep> before(const Ends& ends) const {
    return past_.usual({comm_.uid(), kind_, ends.first, ends.second});
  }
  // By how much longer a step takes, in the parts in which it does. Behind a slow part others may be quicker than
  // usual, where the slots are always full.
  static double beyond_ns(const StepTimes& now, const UsualStep& usual) {
    double ns = 0;
    for (size_t part = 0; part < to_be_taken; ++part) ns += std::max(0.0, now.mean_ns(part) - usual.ns[part]);
    return ns;
  }
  // Peers or past, whichever it exceeds by more than chance; nullopt: neither.
  std::optional<UsualStep> reference(const Ends& ends, const Connection& c, bool& by_past) const {
    const auto exceeds = [&](const UsualStep& usual, double times) {
      const double ns = beyond_ns(c.times, usual);
      return ns > 0 && ns >= (times - 1) * usual.given_after_ns &&
             ns >= std::max(settings_.whatif_errors_min * c.times.given_after_error_ns(),
                            settings_.whatif_spread_factor * usual.deviation_ns);
    };
    by_past = false;
    if (exceeds(usual_now_[c.network], times_min(peers_[c.network], settings_))) return usual_now_[c.network];
    const auto past = before(ends);
    by_past = past && exceeds(*past, settings_.whatif_transfer_times_min);
    return by_past ? past : std::nullopt;
  }
  bool find_network(SlowCollectives&) const;
  void find_gpu(SlowCollectives&) const;
  void name_part(const Connection&, const std::map<Ends, UsualStep>&, SlowLink&) const;

  const Communicator& comm_;
  const Connections& connections_;
  size_t kind_;
  const StepPast& past_;
  const std::vector<Rank>& late_;
  Nanoseconds since_ns_;
  const Settings& settings_;
  std::map<int32_t, double> away_;
  UsualStep usual_now_[2];  // within nodes, over the network
  size_t peers_[2] = {};
};

void Look::name_part(const Connection& c, const std::map<Ends, UsualStep>& usual, SlowLink& link) const {
  const UsualStep& reference = usual.at({link.sender.value, link.receiver.value});
  double beyond_ns[passage_parts] = {};
  for (size_t part = 0; part < to_be_taken; ++part) {
    beyond_ns[part] = std::max(0.0, c.times.mean_ns(part) - reference.ns[part]);
    link.waiting[part] = c.times.waiting(beyond_ns[part]);
  }
  // By how much longer the receiver's proxy takes to hand on what its own GPU sends.
  double receiver_sends_ns = 0;
  for (const auto& [ends, other] : connections_)
    if (other.network && ends.first == link.receiver.value)
      receiver_sends_ns = std::max(receiver_sends_ns, other.times.mean_ns(to_hand_on) - usual.at(ends).ns[to_hand_on]);
  switch (whose_part(beyond_ns, receiver_sends_ns, settings_.whatif_proxy_part_min)) {
    case WhosePart::device: link.component = Component::nic; break;
    case WhosePart::wire: link.component = Component::link; break;
    case WhosePart::receivers_proxy: link.at = link.receiver; [[fallthrough]];
    case WhosePart::senders_proxy: link.component = Component::proxy; return;
  }
  // How far it got in the network nobody knows while a proxy does not look, or its threads are stopped.
  const bool sender_stopped = had_stopped_threads(comm_, link.sender, since_ns_),
             receiver_stopped = had_stopped_threads(comm_, link.receiver, since_ns_);
  const double sender_away = away_.at(link.sender.value), receiver_away = away_.at(link.receiver.value);
  if (sender_stopped == receiver_stopped && std::max(sender_away, receiver_away) < settings_.whatif_proxy_part_min)
    return;
  link.component = Component::proxy;
  const bool sends = sender_stopped != receiver_stopped ? sender_stopped : sender_away >= receiver_away;
  link.at = sends ? link.sender : link.receiver;
}

bool Look::find_network(SlowCollectives& out) const {
  std::map<Ends, UsualStep> usual;
  std::map<Ends, bool> by_past;
  std::set<Ends> slow;
  size_t all = 0;
  for (const auto& [ends, c] : connections_) {
    if (!c.network) continue;
    ++all;
    usual[ends] = usual_now_[true];
    bool past = false;
    const auto of = reference(ends, c, past);
    if (!of) continue;
    usual[ends] = *of;
    double longest_ns = 0;
    for (size_t part = 0; part < to_be_taken; ++part) longest_ns = std::max(longest_ns, c.times.mean_ns(part));
    // What the receiver's GPU does not take fills everything behind it.
    if (c.times.mean_ns(to_be_taken) >= longest_ns) continue;
    slow.insert(ends);
    by_past[ends] = past;
  }
  std::vector<SlowLink> links;
  for (const Ends& ends : slow) {
    const Connection& c = connections_.at(ends);
    const double longer_ns = beyond_ns(c.times, usual.at(ends));
    SlowLink link;
    link.sender = link.at = Rank{ends.first}, link.receiver = Rank{ends.second};
    link.steps = c.times.waiting(c.times.given_after_ns());
    link.by_past = by_past[ends];
    name_part(c, usual, link);
    out.lost_part = std::max(out.lost_part, lost_part(c.times, longer_ns));
    links.push_back(link);
  }
  leave_out_waits_for(late_, links);
  // Fewer wait on what is only kept by the slowest.
  double most = 0;
  for (const SlowLink& link : links) most = std::max(most, link.steps);
  std::erase_if(links, [&](const SlowLink& l) { return 2 * l.steps < most; });
  const bool all_slow = links.size() == all && all > 2;
  out.links = put_together(links);
  // Nobody stands out, unless there is only one wire with its two directions.
  if (all_slow && out.links.size() == all) out.links.clear();
  return !slow.empty();
}

// The GPU whose inputs are all there, and whose outputs have room: steps queue up for it on each connection from which
// it receives, and for no other GPU on those to which it sends. A connection that nobody reports tells nothing: a GPU
// of which only such ones lead on is not named.
void Look::find_gpu(SlowCollectives& out) const {
  struct Gpu {
    double in = INFINITY, out = 0, lost_part = 0;
    bool sends = false;
    SlowLink link;
    double down() const { return std::isfinite(in) && sends ? in - out : 0; }
  };
  std::map<int32_t, Gpu> gpus;
  for (const auto& [ends, c] : connections_) {
    const auto past = before(ends);
    const UsualStep& usual = past ? *past : usual_now_[c.network];
    const double now_ns = c.times.mean_ns(to_be_taken), usual_ns = usual.ns[to_be_taken],
                 times = past ? settings_.whatif_transfer_times_min : times_min(peers_[c.network], settings_);
    const bool slow = now_ns > 0 && now_ns >= times * usual_ns &&
                      now_ns - usual_ns >= std::max(settings_.whatif_errors_min * c.times.taken_error_ns(),
                                                    settings_.whatif_spread_factor * usual.taken_deviation_ns);
    const double queued = slow ? c.times.waiting(now_ns - usual_ns) : 0;
    Gpu &to = gpus[ends.second], &from = gpus[ends.first];
    from.sends = true;
    from.out = std::max(from.out, c.times.waiting(std::max(0.0, c.times.most_ns(to_be_taken) - usual_ns)));
    if (queued >= to.in) continue;
    to.in = queued;
    to.lost_part = slow ? lost_part(c.times, now_ns - usual_ns) : 0;
    to.link = {Rank{ends.first}, Rank{ends.second}, Rank{ends.second}, Component::gpu, queued};
    to.link.waiting[to_be_taken] = queued;
    to.link.by_past = past.has_value();
  }
  const auto most = std::max_element(gpus.begin(), gpus.end(),
                                     [](const auto& a, const auto& b) { return a.second.down() < b.second.down(); });
  // Where the queues of several step down alike nobody knows which one is the cause.
  if (most == gpus.end() || most->second.down() <= 0 || most->second.lost_part <= 0 ||
      2 * most->second.out > most->second.in || std::any_of(gpus.begin(), gpus.end(), [&](const auto& of) {
        return of.first != most->first && 2 * of.second.down() > most->second.down();
      }))
    return;
  out.lost_part = most->second.lost_part;
  out.links.push_back(most->second.link);
}

}  // namespace

std::optional<SlowCollectives> slow_collectives(const Communicator& comm, const std::vector<CollectiveRound>& rounds,
                                                const std::vector<Rank>& late, Nanoseconds since_ns, StepPast& past,
                                                const Settings& settings) {
  SlowCollectives out;
  out.comm = &comm;
  std::vector<std::pair<size_t, Connections>> learn;
  bool slow = false;
  for (const Kind& kind : kinds_in(rounds)) {
    Connections connections = add_up(kind, settings);
    if (learn.empty()) {
      slow = Look(comm, connections, kind.kind, past, late, since_ns, settings).find(out);
      out.op = kind.rounds.front()->op, out.signature = kind.rounds.front()->signature;
      for (const CollectiveRound* r : kind.rounds) out.groups.push_back(r->group);
    }
    learn.emplace_back(kind.kind, std::move(connections));
  }
  if (!slow && late.empty())
    for (const auto& [kind, connections] : learn)
      for (const auto& [ends, c] : connections) past.learn({comm.uid(), kind, ends.first, ends.second}, c.operations);
  if (out.links.empty()) return std::nullopt;
  out.by_past = std::all_of(out.links.begin(), out.links.end(), [](const SlowLink& l) { return l.by_past; });
  out.lost_part = std::clamp(out.lost_part, 0.0, 1.0);
  return out;
}

}  // namespace ccld::decision::whatif
