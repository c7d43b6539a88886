#include "decision/whatif/slow_steps.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "decision/whatif/connection_steps.h"
#include "decision/whatif/operation_steps.h"
#include "decision/whatif/slow_gpu.h"
#include "decision/whatif/slow_network.h"

namespace ccld::decision::whatif {
namespace {

// What one kind of operations shows.
struct OfKind {
  std::vector<SlowLink> links;
  bool slow = false;  // something takes longer than otherwise, whatever it may be, or the operations do
  double lost_part = 0, lost_ns = 0;
  bool longer = false;  // than before, because of the links
};

// A rank of which nothing is known may be the late one for which the steps wait.
bool all_ranks_known(const OperationKind& kind) {
  return std::all_of(kind.rounds.begin(), kind.rounds.end(), [](const CollectiveRound* r) {
    return std::none_of(r->begins_ns.begin(), r->begins_ns.end(), [](double ns) { return std::isnan(ns); });
  });
}

// What has become slow makes operations longer. If they are as long as before, it only seems to be slow: the clocks of
// its hosts are not compared as well as was thought, or the queue that waited for a GPU that began late stays until the
// end, because all are equally fast. What was slow from the start on has lost nothing since.
bool became_slow(const SlowLink& l, double explained_min) {
  return l.lost_since_part > 0 && l.lost_since_part >= explained_min * l.lost_part;
}
bool only_seems_slow(const SlowLink& l, double longer_part, double explained_min) {
  return became_slow(l, explained_min) && longer_part < explained_min * l.lost_since_part;
}

// While a late rank is awaited, steps queue up on connections that are well. So beside a late rank an operation loses
// by a connection at most what it may take longer than before. A late GPU makes operations longer itself, and where its
// steps pile up shows in stages, too: a delay shorter than the time between two samples is believed beside one only if
// operations have become longer by most of it (half of what is beyond whatif_explained_min may be the GPU's). And a
// step that takes longer than the whole transfer, which counts from the last begin, has waited for the late rank.
void leave_out_late(std::vector<SlowLink>& links, const Late& late, double longer_part,
                    std::optional<double> longer_most_part, double transfer_ns, const Settings& settings) {
  std::erase_if(links, [&](SlowLink& l) {
    if (l.longer_ns > transfer_ns) return true;
    if (!longer_most_part || !became_slow(l, settings.whatif_explained_min)) return false;
    if (late.who == Late::gpus && l.longer_ns < late.sampled_every_ns &&
        only_seems_slow(l, longer_part, (1 + settings.whatif_explained_min) / 2))
      return true;
    l.lost_part = std::min(l.lost_part, *longer_most_part);
    return l.lost_part < settings.whatif_gain_min;
  });
}

// Steps that go ahead while a rank has not begun may queue up until the end, on several connections before it, if all
// that comes after is equally fast. So without a past more connections than a device has in a ring are slow only if
// their steps wait for longer than that together.
void leave_out_ahead(std::vector<SlowLink>& links, const std::vector<OperationSteps>& operations) {
  double waiting_ns = 0, ahead_ns = 0;
  for (const SlowLink& l : links) waiting_ns += l.longer_ns;
  for (const OperationSteps& o : operations) ahead_ns += o.begins_apart_ns / static_cast<double>(operations.size());
  if (links.size() <= 2 || waiting_ns > ahead_ns) return;
  std::erase_if(links,
                [](const SlowLink& l) { return l.component == Component::link || l.component == Component::nic; });
}

// Where processors are short, all that threads do takes longer. No thread moves a step that is under way: only that it
// has arrived may be seen a little later.
bool may_want_a_processor(const SlowLink& l, double lost_ns, double turn_wait_ns, const Settings& settings) {
  if (lost_ns > settings.processor_turns_max * turn_wait_ns) return false;
  return (l.component != Component::link && l.component != Component::nic) ||
         l.under_way_ns <= settings.processor_step_turns_max * turn_wait_ns;
}

bool takes_longer(double mean_ns, const StepPast::UsualTransfer& usual, const Settings& settings) {
  return mean_ns >= settings.whatif_transfer_times_min * usual.ns &&
         mean_ns - usual.ns >= settings.whatif_deviations_min * usual.deviation_ns;
}

OfKind look_at(const Communicator& comm, const OperationKind& kind, const Late& late, double turn_wait_ns,
               StepPast& past, const Settings& settings) {
  const Connections connections = add_up(past.with_earlier(comm.uid(), kind.kind, kind.operations), settings);
  const StepReference reference(comm.uid(), kind.kind, connections, past, settings);
  SlowNetwork network = find_slow_network(connections, reference, settings);
  OfKind of;
  of.links = std::move(network.links);
  std::set<int32_t> out_of_sight;
  for (const CollectiveRound* r : kind.rounds) out_of_sight.insert(r->out_of_sight.begin(), r->out_of_sight.end());
  const SlowGpu gpu = find_slow_gpu(connections, reference, out_of_sight);
  if (gpu.link && of.links.empty() && late.who == Late::nobody && all_ranks_known(kind)) of.links.push_back(*gpu.link);
  const auto before = past.transfer(comm.uid(), kind.kind);
  const double mean_ns = kind.sum_ns / static_cast<double>(kind.rounds.size());
  of.slow = network.slow || gpu.slow || !of.links.empty() || (before && takes_longer(mean_ns, *before, settings));
  const double longer_part = before ? 1 - before->ns / mean_ns : 0;
  std::optional<double> longer_most_part;
  if (before) longer_most_part = longer_part + settings.whatif_deviations_min * before->deviation_ns / mean_ns;
  if (late.who != Late::nobody)
    leave_out_late(of.links, late, longer_part, longer_most_part, mean_ns, settings);
  else if (before)
    std::erase_if(of.links,
                  [&](const SlowLink& l) { return only_seems_slow(l, longer_part, settings.whatif_explained_min); });
  else
    leave_out_ahead(of.links, kind.operations);
  double lost_most_part = 0;
  for (const SlowLink& link : of.links) {
    of.lost_part = std::max(of.lost_part, link.lost_part);
    lost_most_part = std::max(lost_most_part, link.lost_most_part);
  }
  // All that such operations take longer than before is lost if the links explain a good part of it for certain. If
  // they may explain all of it, too, but for what a late GPU may be the reason of.
  const double beyond_gpus_part = late.who == Late::gpus ? 1 - late.gpu_times * (1 - longer_part) : longer_part;
  const bool certain = of.lost_part >= settings.whatif_explained_min * longer_part;
  of.longer = longer_part > 0 && (certain || (beyond_gpus_part > 0 && lost_most_part >= beyond_gpus_part));
  if (of.longer) of.lost_part = std::max(of.lost_part, certain ? longer_part : beyond_gpus_part);
  of.lost_ns = of.lost_part * kind.sum_ns;
  const double lost_ns = of.lost_ns / static_cast<double>(kind.rounds.size());
  std::erase_if(of.links, [&](const SlowLink& l) { return may_want_a_processor(l, lost_ns, turn_wait_ns, settings); });
  return of;
}

// What several kinds of operations lose on the same connection, or by the same proxy or GPU, is one loss.
bool is_same(const std::vector<SlowLink>& links, const std::vector<SlowLink>& others) {
  return std::any_of(links.begin(), links.end(), [&](const SlowLink& a) {
    return std::any_of(others.begin(), others.end(), [&](const SlowLink& b) {
      return a.at == b.at || (a.sender == b.sender && a.receiver == b.receiver);
    });
  });
}

}  // namespace

std::optional<SlowCollectives> slow_collectives(const Communicator& comm, const std::vector<CollectiveRound>& rounds,
                                                const Late& late, double turn_wait_ns, StepPast& past,
                                                const Settings& settings) {
  const std::vector<OperationKind> kinds = kinds_in(rounds);
  std::vector<OfKind> looks;
  for (const OperationKind& kind : kinds) looks.push_back(look_at(comm, kind, late, turn_wait_ns, past, settings));
  if (late.who == Late::nobody && std::none_of(looks.begin(), looks.end(), [](const OfKind& of) { return of.slow; }))
    for (const OperationKind& kind : kinds) past.learn(comm.uid(), kind.kind, kind.operations);
  const auto most = std::max_element(looks.begin(), looks.end(),
                                     [](const OfKind& a, const OfKind& b) { return a.lost_ns < b.lost_ns; });
  if (most == looks.end() || most->links.empty()) return std::nullopt;
  SlowCollectives out;
  out.comm = &comm;
  out.links = most->links;
  out.by_past = std::all_of(out.links.begin(), out.links.end(), [](const SlowLink& l) { return l.by_past; });
  out.changed = out.by_past || most->longer;
  const CollectiveRound& first = *at(kinds, most - looks.begin()).rounds.front();
  out.op = first.op, out.signature = first.signature;
  for (size_t i = 0; i < kinds.size(); ++i)
    if (is_same(out.links, looks[i].links))
      for (const CollectiveRound* r : kinds[i].rounds) out.operations.push_back({r->group, looks[i].lost_part});
  return out;
}

}  // namespace ccld::decision::whatif
