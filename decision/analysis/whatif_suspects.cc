#include "decision/analysis/whatif_suspects.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace ccld::decision {
namespace {

using whatif::Cause;

// What a cause is about.
struct Place {
  Component component = Component::link;  // of its first culprit; a late host's GPU counts as the one that is late
  const RankModel* at = nullptr;          // whose it is
  // From, to; to nullptr: all connections of a process.
  std::vector<std::pair<const RankModel*, const RankModel*>> connections;
  bool unexplained = false;  // its transfers take longer, and no stage of the network says why
};

const ProcessModel* process(const RankModel* r) { return r ? r->process : nullptr; }

Place place_of(const Cause& c, const WhatIfLook& look) {
  Place p;
  if (is_late(c)) {
    p.component = Component::gpu;
    const int first = whatif::at(look.graph.gpus, c.gpu).first;
    p.at = rank_of(look, whatif::at(look.graph.nodes, first).is_of_window ? first : first + 1);
    return p;
  }
  for (int i : c.transfers) {
    const whatif::Transfer& t = whatif::at(look.graph.transfers, i);
    p.connections.emplace_back(rank_of(look, t.send), rank_of(look, t.recv));
  }
  p.unexplained = c.kind == Cause::Kind::connection && !c.staged;
  const auto watch = look.watches.find(told_by(c, look));
  if (watch == look.watches.end()) return p;
  const Communicator& comm = watch->second->comm;
  Finding f;
  add_culprits(c, look, comm, 0, 1, f);
  if (f.culprits.empty()) return p;
  p.component = f.culprits.front().component;
  p.at = comm.rank(f.culprits.front().rank);
  if (c.kind != Cause::Kind::collectives) return p;
  for (const Culprit& k : f.culprits) {
    const RankModel *at = comm.rank(k.rank), *peer = k.peer ? comm.rank(*k.peer) : nullptr;
    p.connections.emplace_back(at, peer);
  }
  return p;
}

bool ends_at(const Place& p, const ProcessModel* end) {
  return end && std::all_of(p.connections.begin(), p.connections.end(),
                            [&](const auto& c) { return process(c.first) == end || process(c.second) == end; });
}

// Of two hosts, and not of two processes.
bool same_wire(const RankModel* from, const RankModel* to, const RankModel* other_from, const RankModel* other_to) {
  if (!from || !to || !other_from || !other_to) return false;
  if (process(from) == process(other_from) && process(to) == process(other_to)) return true;
  return from->host != to->host && from->host == other_from->host && to->host == other_to->host;
}

// A GPU that is late takes and gives the steps of its transfers late, too. If no stage of the network says otherwise,
// what is slow on its connections only is the GPU.
bool is_of_late_gpu(const Place& gpu, const Place& p) {
  return gpu.component == Component::gpu && gpu.at && p.component == Component::link && p.unexplained &&
         ends_at(p, process(gpu.at));
}

// What is slow on any connection of a proxy may be the proxy; a device and a wire are one, whoever uses them. A GPU is
// one whichever way it shows: it comes late, or does not take its steps.
bool explains(const Place& known, const Place& p) {
  if (is_of_late_gpu(known, p) || is_of_late_gpu(p, known)) return true;
  if (known.component == Component::gpu || p.component == Component::gpu)
    return known.component == p.component && known.at && p.at && process(known.at) == process(p.at) &&
           known.at->cuda_device == p.at->cuda_device;
  if (known.component == Component::proxy && ends_at(p, process(known.at))) return true;
  if (p.component == Component::proxy && ends_at(known, process(p.at))) return true;
  if (known.component == Component::nic && p.component == Component::nic && known.at && p.at &&
      process(known.at) == process(p.at))
    return true;
  return std::any_of(known.connections.begin(), known.connections.end(), [&](const auto& a) {
    return std::any_of(p.connections.begin(), p.connections.end(),
                       [&](const auto& b) { return same_wire(a.first, a.second, b.first, b.second); });
  });
}

// Stages of links tell more than durations of transfers; and a rank that comes late may be why all its transfers take
// long, so it goes before them.
int rank_of_kind(const Cause& c) { return c.kind == Cause::Kind::collectives ? 0 : is_late(c) ? 1 : 2; }

std::set<std::string> keys_of(const Place& p) {
  std::set<std::string> keys;
  for (const auto& [from, to] : p.connections) {
    if (from && to && from->host != to->host)
      keys.insert(absl::StrCat("wire ", std::string(from->host), " ", std::string(to->host)));
    else if (to)
      keys.insert(absl::StrCat("connection ", process_text(from), " ", process_text(to)));
  }
  if (!p.at) return keys;
  if (p.component == Component::gpu)
    keys.insert(absl::StrCat("gpu ", process_text(p.at), " ", p.at->cuda_device));
  else
    keys.insert(absl::StrCat("network of ", process_text(p.at)));
  return keys;
}

std::set<std::string> hosts_of(const Place& p) {
  std::set<std::string> hosts;
  for (const auto& [from, to] : p.connections)
    if (from && to && from->host != to->host) hosts.insert(std::string(from->host)), hosts.insert(std::string(to->host));
  return hosts;
}

// What several connections carry at the same time has met the same thing, so those of one count.
uint64_t slow_transfers_of_one(const Suspect& s, const WhatIfLook& look) {
  std::map<std::pair<int, int>, uint64_t> counts;
  uint64_t most = 0;
  for (size_t cause : s.causes)
    for (int i : look.explanation.causes[cause].transfers) {
      const whatif::Transfer& t = whatif::at(look.graph.transfers, i);
      const auto gpu = [&](int node) { return whatif::at(look.graph.nodes, node).gpu; };
      if (whatif::at(look.explanation.transfer_less_ns, i) <= 0) continue;
      most = std::max(most, ++counts[{gpu(t.send), gpu(t.recv)}]);
    }
  return most;
}

std::set<CommUid> comms_of(const Suspect& s, const WhatIfLook& look) {
  std::set<CommUid> comms;
  for (size_t i : s.causes) {
    const Cause& c = look.explanation.causes[i];
    if (is_late(c)) return {};
    if (c.kind == Cause::Kind::collectives) comms.insert(whatif::at(look.collectives, c.collectives).comm->uid());
    for (int t : c.transfers)
      comms.insert(whatif::at(look.graph.nodes, whatif::at(look.graph.transfers, t).recv).kernel->comm);
  }
  return comms;
}

}  // namespace

std::vector<Suspect> put_together(const WhatIfLook& look) {
  const std::vector<Cause>& causes = look.explanation.causes;
  std::vector<size_t> order;
  for (size_t i = 0; i < causes.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank_of_kind(causes[a]) < rank_of_kind(causes[b]); });
  std::vector<Suspect> out;
  std::vector<Place> places;  // of their first causes
  for (size_t i : order) {
    const Cause& c = causes[i];
    Suspect s;
    s.causes = {i};
    s.gain_ns = c.gain_ns;
    if (c.kind == Cause::Kind::host) s.host_gain_ns = c.gain_ns;
    Place p = place_of(c, look);
    s.keys = keys_of(p);
    s.hosts = hosts_of(p);
    size_t known = 0;
    while (known < out.size() && !explains(places[known], p)) ++known;
    if (known == out.size()) {
      out.push_back(std::move(s));
      places.push_back(std::move(p));
      continue;
    }
    // A proxy is the cause of what is slow on its connections, but not on those of others beside it. A late GPU is seen
    // most directly by when it comes.
    const Place& first = places[known];
    const bool tells_more = is_late(c) ? !is_late(causes[out[known].causes.front()])
                            : p.component == Component::proxy
                                ? first.component != Component::proxy && ends_at(first, process(p.at))
                                : first.component == Component::proxy && !ends_at(p, process(first.at));
    if (tells_more) {
      out[known].causes.insert(out[known].causes.begin(), i);
      places[known] = std::move(p);
    } else {
      out[known].causes.push_back(i);
    }
    out[known].keys.merge(s.keys);
    out[known].hosts.merge(s.hosts);
    out[known].gain_ns += s.gain_ns;
    out[known].host_gain_ns += s.host_gain_ns;
  }
  // Steps also wait for GPUs that cannot pass on because of what is slow elsewhere.
  const auto network = [&](size_t i) {
    return !is_late(causes[out[i].causes.front()]) && places[i].component != Component::gpu;
  };
  bool any = false;
  for (size_t i = 0; i < out.size(); ++i) {
    any |= network(i);
    out[i].is_link = network(i) && places[i].component != Component::proxy;
  }
  for (size_t i = out.size(); any && i-- > 0;)
    if (!is_late(causes[out[i].causes.front()]) && !network(i)) out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
  for (Suspect& s : out) s.slow_transfers = slow_transfers_of_one(s, look), s.comms = comms_of(s, look);
  std::stable_sort(out.begin(), out.end(), [](const Suspect& a, const Suspect& b) { return a.gain_ns > b.gain_ns; });
  return out;
}

}  // namespace ccld::decision
