#include "decision/analysis/whatif_findings.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "decision/analysis/slow_confidence.h"
#include "decision/locate/slow_finding.h"

namespace ccld::decision {
namespace {

using whatif::Cause;
using whatif::Kernel;
using whatif::none;
using whatif::Transfer;

constexpr double evidence_steps_min = 0.1;  // less is not worth a line
constexpr const char* part_texts[passage_parts] = {"wait for the sender's proxy",
                                                   "are handed to the network and not sent", "are on the wire",
                                                   "wait for the receiver's proxy", "wait for the receiver's GPU"};

const Kernel& kernel(const WhatIfLook& look, int node) { return *whatif::at(look.graph.nodes, node).kernel; }

std::string reference_text(const Cause& c, const char* verb) {
  return c.peers > 0 ? absl::StrFormat("%d peers %s %.1f ms", c.peers, verb, c.reference_ns / 1e6)
                     : absl::StrFormat("before it was %.1f ms", c.reference_ns / 1e6);
}

Basis basis_of(const Cause& c, const WhatIfLook& look) {
  if (is_late(c)) return c.peers > 0 ? Basis::peers : Basis::past;
  if (c.expected) return Basis::expectation;
  if (c.kind != Cause::Kind::collectives) return c.peers > 0 ? Basis::transfers : Basis::past_transfers;
  return whatif::at(look.collectives, c.collectives).by_past ? Basis::past_connections : Basis::connections;
}

void add_connections(const Cause& c, const WhatIfLook& look, const Communicator& comm, Finding& f) {
  std::set<std::pair<int32_t, int32_t>> ends;
  for (int i : c.transfers) {
    const Transfer& t = whatif::at(look.graph.transfers, i);
    const Kernel &send = kernel(look, t.send), &recv = kernel(look, t.recv);
    if (send.comm != comm.uid() || !ends.insert({send.rank.value, recv.rank.value}).second) continue;
    const std::string reason =
        absl::StrFormat("its transfers to rank %d take %.1f ms; ", recv.rank.value, c.measured_ns / 1e6) +
        (c.peers > 0 ? absl::StrFormat("%d connections that carry the same take %.1f ms", c.peers, c.reference_ns / 1e6)
         : c.expected
             ? absl::StrFormat("a network takes at most %.1f ms (network_rate_min_mbit_s)", c.reference_ns / 1e6)
             : absl::StrFormat("before it was %.1f ms", c.reference_ns / 1e6));
    f.signature.function = abi::Function::send;
    if (c.kind == Cause::Kind::proxy) {
      const bool sends = whatif::at(look.graph.nodes, t.send).gpu == c.gpu;
      f.culprits.push_back(
          make_culprit(comm, sends ? send.rank : recv.rank, Component::proxy, Condition::proxy_slow, reason));
      return;
    }
    Culprit culprit = make_culprit(comm, send.rank, Component::link, Condition::link_slow, reason);
    culprit.peer = recv.rank;
    culprit.net_name = net_name_of(comm, send.rank, abi::Direction::send, recv.rank, -1);
    if (f.culprits.size() < culprits_max) f.culprits.push_back(std::move(culprit));
  }
}

Condition condition_of(const whatif::SlowLink& l) {
  switch (l.component) {
    case Component::link: return Condition::link_slow;
    case Component::nic: return Condition::nic_slow;
    case Component::gpu: return Condition::gpu_takes_slowly;
    default: return l.steps == 0 ? Condition::proxy_polls_seldom : Condition::proxy_slow;
  }
}

void add_links(const whatif::SlowCollectives& s, const Communicator& comm, Finding& f) {
  for (const whatif::SlowLink& l : s.links) {
    if (f.culprits.size() >= culprits_max) return;
    const bool network = l.component == Component::link || l.component == Component::nic;
    const Rank peer = l.at == l.sender ? l.receiver : l.sender;
    Culprit c = make_culprit(
        comm, l.at, l.component, condition_of(l),
        l.steps == 0
            ? absl::StrFormat("its proxy did not poll its connections for %.0f %% of the time in which others did",
                              100 * std::min(1.0, l.away_part))
        : l.sender == l.receiver ? absl::StrFormat("%.1f steps wait for its proxy on average", l.steps)
        : l.component == Component::gpu
            ? absl::StrFormat("%.1f steps from rank %d wait for its GPU on average", l.steps, peer.value)
            : absl::StrFormat("%.1f steps wait %s rank %d on average", l.steps,
                              l.component == Component::link  ? "on the wire to"
                              : l.component == Component::nic ? "in its network device towards"
                              : l.at == l.sender              ? "in front of its proxy towards"
                                                              : "in its proxy from",
                              peer.value));
    if (network || (l.component == Component::proxy && l.sender != l.receiver)) c.peer = peer;
    if (network) c.net_name = net_name_of(comm, l.sender, abi::Direction::send, l.receiver, -1);
    f.culprits.push_back(std::move(c));
    for (size_t part = 0; part < passage_parts; ++part)
      if (l.waiting[part] >= evidence_steps_min)
        add_evidence(f,
                     {.kind = l.by_past ? EvidenceKind::steps_more_than_before : EvidenceKind::steps_more_than_others,
                      .rank = l.sender.value,
                      .peer = l.receiver.value,
                      .subject = part_texts[part],
                      .value = l.waiting[part]});
  }
}

}  // namespace

const RankModel* rank_of(const WhatIfLook& look, int node) {
  const Kernel& k = kernel(look, node);
  const auto it = look.watches.find(k.comm);
  return it == look.watches.end() ? nullptr : it->second->comm.rank(k.rank);
}

std::string process_text(const RankModel* r) {
  if (!r || !r->process) return "";
  const ProcessId& p = r->process->id;
  return absl::StrCat(p.boot_id, "/", p.host, "/", p.pid_namespace, "/", p.pid, "/", p.pid_start_ticks);
}

CommUid told_by(const Cause& c, const WhatIfLook& look) {
  if (c.kind == Cause::Kind::collectives) return whatif::at(look.collectives, c.collectives).comm->uid();
  std::map<CommUid, double> waited_ns;
  if (is_late(c)) {
    const auto [from, to] = whatif::at(look.graph.gpus, c.gpu);
    for (int i = from; i < to; ++i) {
      const whatif::Node& n = whatif::at(look.graph.nodes, i);
      if (!n.is_of_window) continue;
      double& sum = waited_ns[n.kernel->comm];
      if (n.group == none) continue;
      for (int member : whatif::at(look.graph.groups, n.group))
        sum += std::max(0.0, n.begin_ns - whatif::at(look.graph.nodes, member).begin_ns);
    }
  }
  for (int i : c.transfers) {
    const Transfer& t = whatif::at(look.graph.transfers, i);
    waited_ns[kernel(look, t.recv).comm] += t.ns;
  }
  return std::max_element(waited_ns.begin(), waited_ns.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

bool add_culprits(const Cause& c, const WhatIfLook& look, const Communicator& comm, double host_part, double share,
                  Finding& f) {
  const size_t before = f.culprits.size();
  if (is_late(c)) {
    const auto [from, to] = whatif::at(look.graph.gpus, c.gpu);
    for (int i = from; i < to; ++i) {
      const Kernel& k = kernel(look, i);
      if (k.comm != comm.uid() || !whatif::at(look.graph.nodes, i).is_of_window) continue;
      const bool host = host_part > 0.5;
      Culprit culprit = make_culprit(
          comm, k.rank, host ? Component::process : Component::gpu, host ? Condition::host_late : Condition::gpu_late,
          absl::StrCat(absl::StrFormat("%s %.1f ms before each operation; ",
                                       host ? "its process takes" : "its GPU takes", c.measured_ns / 1e6),
                       reference_text(c, "take")));
      culprit.queued_part = 1 - host_part;
      f.culprits.push_back(std::move(culprit));
      if (f.op.value == 0) f.op = k.op, f.signature = k.signature;
      break;
    }
  } else if (c.kind == Cause::Kind::collectives) {
    const whatif::SlowCollectives& s = whatif::at(look.collectives, c.collectives);
    if (s.comm != &comm) return false;
    add_links(s, comm, f);
    if (f.op.value == 0) f.op = s.op, f.signature = s.signature;
    add_evidence(f, {.kind = EvidenceKind::transfer, .value = c.measured_ns / 1e6});
    add_evidence(f, {.kind = EvidenceKind::transfer_reference, .value = c.reference_ns / 1e6});
  } else {
    add_connections(c, look, comm, f);
  }
  const size_t named = f.culprits.size() - before;
  const int number = next_cause(f);
  for (size_t i = before; i < f.culprits.size(); ++i) {
    f.culprits[i].lost_time_share = share / static_cast<double>(named);
    f.culprits[i].basis = basis_of(c, look);
    f.culprits[i].cause = number;
  }
  return named > 0;
}

void describe(const WhatIfLook& look, const Communicator& comm, bool late, bool network, Finding& f) {
  f.fault = !late     ? FaultClass::s2_communication_slow
            : network ? FaultClass::s3_mixed_slow
                      : FaultClass::s1_computation_slow;
  f.next_step = slow_next_step(f);
  collect_victims(comm, f);
  for (const whatif::Waiting& w : look.explanation.waiting)
    if (const auto it = look.watches.find(w.comm); w.comm != comm.uid() && it != look.watches.end())
      f.victim_comms.push_back({w.comm, it->second->comm.name(), it->second->comm.rank_count(), w.op});
}

void weigh(const whatif::Explanation& e, double iteration_ns, double shared_ns, Finding& f) {
  double gains_ns = 0, shares = 0;
  for (const Cause& c : e.causes) gains_ns += c.gain_ns;
  for (const Culprit& c : f.culprits) shares += c.lost_time_share;
  // What other incidents tell, or what is not sure yet, is not gained by what this one names.
  const double told = gains_ns > 0 ? std::clamp(shares * shared_ns / gains_ns, 0.0, 1.0) : 1;
  // Without the causes the window's first operations might have begun earlier, too, and nobody knows by how much. The
  // gain is least if they could not, and most if what comes before them would shrink like the rest: the middle of both.
  const double gained_ns = e.length_ns - e.length_without_ns,
               part = (gained_ns / e.length_ns + gained_ns / (e.length_ns - e.fixed_ns)) / 2;
  const double without = 1 - told * part;
  const double now_ns = iteration_ns > 0 ? iteration_ns : e.length_ns;
  f.confidence = confidence_of(f.culprits);
  f.gain = {std::llround(now_ns), std::llround(without * now_ns), iteration_ns > 0};
}

}  // namespace ccld::decision
