#include "decision/whatif/connections.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "decision/measure/middle.h"
#include "decision/whatif/kinds.h"

namespace ccld::decision::whatif {
namespace {

struct Connection {
  int sender = none, receiver = none;  // GPUs
  std::vector<int> transfers;
  std::vector<int> unmeasured;           // one end of them was not reported
  uint64_t bytes = 0;                    // of the largest
  double sum_ns = 0, longest_ns = 0, doubt_ns = 0;  // of transfers; of the longest; of each, as clocks of hosts tell it
  double reference_ns = 0;               // of a slow one: what it would take
  size_t peers = 0;                      // that say so; 0: its past, or the settings
  bool expected = false;                 // the settings say so
  StepTimes steps;                       // of those whose stages are known
  bool staged = false;                   // they explain why it is slow
  double beyond_ns[passage_parts] = {};  // of a step, beyond the usual
  int proxy_of = none;                   // GPU whose proxy is slow, if the stages say so
  bool network = false;                  // it is what is between the proxies
  bool proxies_told = false;             // for how long they did not poll their connections
  bool proxies_came_by = false;          // hardly any time
  double mean_ns() const { return sum_ns / static_cast<double>(transfers.size()); }
};

// One slow wire makes all that cross it slower, if not by the same; a slow proxy only its own.
bool alike(const std::vector<const Connection*>& slow, const Settings& settings) {
  double least_ns = INFINITY, most_ns = 0;
  for (const Connection* c : slow) {
    least_ns = std::min(least_ns, c->mean_ns() - c->reference_ns);
    most_ns = std::max(most_ns, c->mean_ns() - c->reference_ns);
  }
  return most_ns <= settings.whatif_lone_times_min * least_ns;
}

// What `of` says of the others, in the middle.
template <class Of>
double usual(const std::vector<StepTimes>& others, Of of) {
  std::vector<double> values;
  for (const StepTimes& m : others) values.push_back(of(m));
  return values.empty() ? 0 : middle(std::move(values));
}

// Whether a proxy did not poll its connections. It counts that itself, so one that always polled is not slow.
void look_at_proxies(const std::vector<GpuFacts>& facts, const Settings& settings, Connection& c) {
  const auto &sender = at(facts, c.sender).proxy_away_part, &receiver = at(facts, c.receiver).proxy_away_part;
  if (!sender || !receiver) return;
  c.proxies_told = true;
  if (std::abs(*sender - *receiver) >= settings.whatif_away_min)
    c.proxy_of = *sender > *receiver ? c.sender : c.receiver;
  else
    c.network = c.proxies_came_by = std::max(*sender, *receiver) < settings.whatif_away_min;
}

// By how much steps take longer in each part; and whether a proxy was seen not to poll, if none tells.
void look_at_stages(const std::vector<StepTimes>& others, const Settings& settings, Connection& c) {
  const StepTimes& now = c.steps;
  if (now.operations() < settings.slow_rounds_min || c.proxy_of != none) return;
  const double sender_away = now.sender_away_part() - usual(others, std::mem_fn(&StepTimes::sender_away_part)),
               receiver_away = now.receiver_away_part() - usual(others, std::mem_fn(&StepTimes::receiver_away_part));
  if (!c.proxies_told && std::max(sender_away, receiver_away) >= settings.whatif_away_min) {
    c.proxy_of = sender_away >= receiver_away ? c.sender : c.receiver;
    return;
  }
  double all_ns = 0;
  for (size_t part = 0; part < to_be_taken; ++part)
    all_ns += c.beyond_ns[part] =
        std::max(0.0, now.mean_ns(part) - usual(others, [&](const StepTimes& m) { return m.mean_ns(part); }));
  if (all_ns < settings.whatif_deviations_min * now.given_after_error_ns()) return;
  // While no step waits, nothing is lost by them.
  const double longer_part = 1 - c.reference_ns / c.mean_ns();
  c.staged = now.waiting(all_ns) >= longer_part;
}

// What connections that carry the same take, if it can be told. Half of them may be slow (one direction of a wire), so
// a healthy one is found among the faster.
struct Healthy {
  double reference_ns = 0, most_ns = INFINITY;
  double most_of_one_ns = INFINITY;  // of a single transfer
  size_t peers = 0;
};

Healthy healthy_of(std::vector<double> means_ns, const Settings& settings) {
  std::sort(means_ns.begin(), means_ns.end());
  Healthy h;
  h.peers = (means_ns.size() + 1) / 2;
  h.reference_ns = middle({means_ns.begin(), means_ns.begin() + static_cast<std::ptrdiff_t>(h.peers)});
  // What takes little longer beside the slowest is noise. What takes far longer is not, however few there are.
  const double times = times_min(h.peers, settings);
  h.most_of_one_ns = times * h.reference_ns;
  const double most_ns =
      h.reference_ns + std::max((times - 1) * h.reference_ns, (means_ns.back() - h.reference_ns) / 2);
  const auto slow =
      static_cast<size_t>(std::count_if(means_ns.begin(), means_ns.end(), [&](double ns) { return ns > most_ns; }));
  if (slow <= means_ns.size() - h.peers) h.most_ns = most_ns;
  return h;
}

// What a transfer over a network takes at most, as the user expects it.
double expected_ns(uint64_t bytes, const Settings& settings) {
  if (settings.network_rate_min_mbit_s <= 0) return INFINITY;
  return 1e6 * settings.network_latency_max_ms + 8e3 * static_cast<double>(bytes) / settings.network_rate_min_mbit_s;
}

Cause cause_of(Cause::Kind kind, int gpu, const std::vector<const Connection*>& of) {
  Cause c;
  c.kind = kind;
  c.gpu = gpu;
  double sum_ns = 0;
  for (const Connection* connection : of) {
    c.transfers.insert(c.transfers.end(), connection->transfers.begin(), connection->transfers.end());
    sum_ns += connection->sum_ns;
  }
  c.measured_ns = sum_ns / static_cast<double>(c.transfers.size());
  for (const Connection* connection : of)
    c.transfers.insert(c.transfers.end(), connection->unmeasured.begin(), connection->unmeasured.end());
  c.reference_ns = of.front()->reference_ns;
  c.peers = static_cast<int>(of.front()->peers);
  c.expected = of.front()->expected;
  c.staged = std::any_of(of.begin(), of.end(), [](const Connection* o) { return o->staged; });
  c.proxies_came_by = std::all_of(of.begin(), of.end(), [](const Connection* o) { return o->proxies_came_by; });
  return c;
}

}  // namespace

double times_min(size_t peers, const Settings& settings) {
  return peers < settings.whatif_peers_min ? settings.whatif_lone_times_min : settings.whatif_transfer_times_min;
}

std::vector<Cause> slow_connections(const Graph& g, const Timeline& timeline, const Past& past,
                                    const std::vector<GpuFacts>& facts, const std::vector<Passage>& passages,
                                    const Settings& settings, std::vector<double>& less_ns) {
  less_ns.assign(g.transfers.size(), 0);
  std::vector<Cause> causes;
  const auto host = [&](int gpu) { return at(facts, gpu).host; };
  const auto process = [&](int gpu) { return at(facts, gpu).process; };
  // Comparable: about the same bytes, over the network or not.
  std::map<std::pair<uint64_t, bool>, std::map<std::pair<int, int>, Connection>> kinds;
  for (size_t i = 0; i < g.transfers.size(); ++i) {
    const Transfer& t = g.transfers[i];
    const int sender = at(g.nodes, t.send).gpu, receiver = at(g.nodes, t.recv).gpu;
    Connection& c = kinds[{transfer_class(t.bytes, settings), host(sender) != host(receiver)}][{sender, receiver}];
    c.sender = sender, c.receiver = receiver;
    c.bytes = std::max(c.bytes, t.bytes);
    if (!t.measured) {
      c.unmeasured.push_back(static_cast<int>(i));
      continue;
    }
    c.transfers.push_back(static_cast<int>(i));
    c.sum_ns += t.ns;
    c.longest_ns = std::max(c.longest_ns, t.ns);
    c.doubt_ns = std::max(c.doubt_ns, t.doubt_ns);
    if (passages[i].steps <= 0) continue;
    c.steps.add(passages[i], t.ns);
  }
  for (auto& [kind, connections] : kinds) {
    std::erase_if(connections, [](const auto& c) { return c.second.transfers.empty(); });
    if (connections.empty()) continue;
    std::vector<double> means;
    for (const auto& [ends, c] : connections) means.push_back(c.mean_ns());
    const Healthy healthy = healthy_of(std::move(means), settings);
    std::vector<Connection*> slow;
    std::vector<StepTimes> others;
    for (auto& [ends, c] : connections) {
      const Means* const before = past.transfer(c.sender, c.receiver, c.bytes, timeline);
      const double usual_ns = before ? before->middle() : INFINITY,
                   least_ns = before ? std::max((settings.whatif_transfer_times_min - 1) * usual_ns,
                                                settings.whatif_deviations_min * before->deviation())
                                     : INFINITY;
      // A few transfers that take very long (a process that got no processor) make no connection slow, nor does one of
      // three or more without which the rest would be fast (of two, the rest is a single one, which tells nothing).
      const auto exceeds = [&, &connection = c](double reference_ns, double most_ns, double most_of_one_ns,
                                                double doubt_ns = 0) {
        const auto longer = std::count_if(connection.transfers.begin(), connection.transfers.end(),
                                          [&](int i) { return at(g.transfers, i).ns > most_of_one_ns; });
        const auto all = static_cast<double>(connection.transfers.size());
        return (all < 3 || connection.sum_ns - connection.longest_ns > (all - 1) * most_of_one_ns) &&
               connection.mean_ns() - doubt_ns >
                   std::max(most_ns, reference_ns + settings.processor_turns_max * g.turn_wait_ns) &&
               static_cast<double>(longer) >= settings.whatif_recurs_min * all;
      };
      // One direction seems slower than the other by what the clocks of hosts are wrong.
      const bool by_peers = exceeds(healthy.reference_ns, healthy.most_ns, healthy.most_of_one_ns, c.doubt_ns),
                 by_past = exceeds(usual_ns, usual_ns + least_ns, usual_ns + least_ns);
      // Peers that use the same slow wire are slow, too.
      if (by_past && !(by_peers && healthy.reference_ns <= usual_ns)) {
        c.reference_ns = usual_ns;
      } else if (by_peers) {
        c.reference_ns = healthy.reference_ns, c.peers = healthy.peers;
      } else if (const double most_ns = expected_ns(c.bytes, settings);
                 kind.second && exceeds(most_ns, most_ns, most_ns, c.doubt_ns)) {
        c.reference_ns = most_ns, c.expected = true;
      } else {
        if (c.steps.operations() > 0) others.push_back(c.steps);
        continue;
      }
      slow.push_back(&c);
    }
    for (Connection* c : slow) {
      for (int i : c->transfers) at(less_ns, i) = std::max(0.0, at(g.transfers, i).ns - c->reference_ns);
      for (int i : c->unmeasured)
        at(less_ns, i) = std::min(at(g.transfers, i).ns, std::max(0.0, c->mean_ns() - c->reference_ns));
      look_at_proxies(facts, settings, *c);
      look_at_stages(others, settings, *c);
    }
    for (Connection* c : slow) {
      if (!c->staged || c->network || c->proxy_of != none) continue;
      double sends_ns = 0;
      for (const Connection* o : slow)
        if (o->staged && process(o->sender) == process(c->receiver))
          sends_ns = std::max(sends_ns, o->beyond_ns[to_hand_on]);
      switch (whose_part(c->beyond_ns, sends_ns, settings.whatif_proxy_part_min)) {
        case WhosePart::senders_proxy: c->proxy_of = c->sender; break;
        case WhosePart::receivers_proxy: c->proxy_of = c->receiver; break;
        default: c->network = true;
      }
    }
    // A proxy that is known may explain connections of which less is known.
    std::stable_partition(slow.begin(), slow.end(), [](const Connection* c) { return c->proxy_of != none; });

    // All connections of a wire, or of a process, and more than one of them.
    const auto all_slow = [&](auto matches) {
      std::vector<const Connection*> of;
      for (const auto& [ends, c] : connections) {
        if (!matches(c)) continue;
        if (std::find(slow.begin(), slow.end(), &c) == slow.end()) return std::vector<const Connection*>();
        of.push_back(&c);
      }
      return of;
    };
    while (!slow.empty()) {
      const Connection& c = *slow.front();
      std::vector<const Connection*> best{&c};
      Cause::Kind best_kind = Cause::Kind::connection;
      int gpu = c.sender;
      if (c.proxy_of != none) {
        best_kind = Cause::Kind::proxy, gpu = c.proxy_of;
        const auto serves = [&](int end) { return process(end) == process(gpu); };
        best.clear();
        for (const Connection* o : slow)
          if (o->proxy_of == none ? !o->network && (serves(o->sender) || serves(o->receiver)) : serves(o->proxy_of))
            best.push_back(o);
      }
      if (kind.second) {
        // One wire is likelier than the proxies of all its connections.
        const auto wire = all_slow([&](const Connection& o) {
          return host(o.sender) == host(c.sender) && host(o.receiver) == host(c.receiver);
        });
        if (wire.size() > best.size() && (c.proxy_of == none || alike(wire, settings)))
          best = wire, best_kind = Cause::Kind::wire, gpu = c.sender;
      }
      if (kind.second && c.proxy_of == none && !c.network) {
        for (int end : {c.sender, c.receiver}) {
          const auto proxy = all_slow([&](const Connection& o) {
            return process(o.sender) == process(end) || process(o.receiver) == process(end);
          });
          if (std::any_of(proxy.begin(), proxy.end(), [](const Connection* o) { return o->network; })) continue;
          if (proxy.size() > best.size()) best = proxy, best_kind = Cause::Kind::proxy, gpu = end;
        }
      }
      causes.push_back(cause_of(best_kind, gpu, best));
      for (const Connection* taken : best) std::erase(slow, taken);
    }
  }
  return causes;
}

}  // namespace ccld::decision::whatif
