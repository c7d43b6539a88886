#include "probe/agent/finished_rounds.h"

#include <algorithm>
#include <utility>

#include "probe/agent/records.h"

namespace ccld::probe {

void FinishedRounds::add(uint64_t op_seq, const abi::OpRecord& record, FinishedRound round,
                         std::vector<LinkTrack> links, Instant now) {
  ++finished_;
  if (!keep_) return;
  round.op_seq = op_seq;
  round.signature = signature_of(record);
  round.enter_monotonic_ns = record.enter_monotonic_ns;
  round.launch_monotonic_ns = record.launch_monotonic_ns;
  round.signals = record.signals;
  if (record.plan_operations > 1) round.flags |= flag(wire::RoundFlags::shared_kernel);
  if ((record.signals & abi::signal_steps) == 0)
    round.flags &= static_cast<uint8_t>(~flag(wire::RoundFlags::counts_valid));
  Pending pending;
  pending.round = round;
  pending.finished_ns = now.monotonic_ns;
  pending.links = std::move(links);
  pending.open = !pending.links.empty();
  open_links_ += pending.open;
  rounds_.push_back(std::move(pending));
  if (rounds_.size() <= rounds_pending_max) return;
  open_links_ -= rounds_.front().open;
  rounds_.pop_front();
  ++dropped_;
}

void FinishedRounds::add(const abi::P2pRecord& record, const FinishedRound& kernel) {
  ++finished_;
  if (!keep_) return;
  FinishedP2p call;
  call.peer = record.peer;
  call.direction = record.direction;
  call.flags = kernel.flags;
  call.replay = kernel.replay;
  call.plan = record.plan;
  call.pair_seq = record.pair_seq;
  call.bytes = record.bytes;
  call.enter_monotonic_ns = record.enter_monotonic_ns;
  call.launch_monotonic_ns = record.launch_monotonic_ns;
  call.begin_device_ns = kernel.begin_device_ns;
  call.end_device_ns = kernel.end_device_ns;
  call.send_steps = kernel.send_steps;
  call.recv_steps = kernel.recv_steps;
  calls_.push_back(call);
  if (calls_.size() <= rounds_pending_max) return;
  calls_.pop_front();
  ++dropped_;
}

void FinishedRounds::close_links(const ProxyWatch& proxies, Instant now) {
  if (open_links_ == 0) return;
  for (Pending& pending : rounds_) {
    if (!pending.open) continue;
    proxies.update(pending.links, now);
    const bool settled =
        std::all_of(pending.links.begin(), pending.links.end(), [](const LinkTrack& l) { return l.settled(); });
    if (!settled && now.monotonic_ns - pending.finished_ns < link_settle_ns) continue;
    for (LinkTrack& link : pending.links) link.close(now.realtime_ns);
    pending.open = false;
    --open_links_;
  }
}

void FinishedRounds::add_links(const Pending& pending, RoundsMessage& message) {
  for (const LinkTrack& l : pending.links) {
    if (l.gpu.steps() == 0) continue;
    const uint32_t first = l.first_step();
    const int64_t gpu = l.gpu.mean_ns(first);
    const int64_t ready = l.direction == abi::Direction::send ? gpu : l.ready.mean_ns(first);
    message.links.emplace_back(pending.round.op_seq, gpu, ready, l.wire.mean_ns(first), l.done.mean_ns(first), l.peer,
                               l.has_proxy ? l.net_device : -1, l.gpu.steps(), l.channel,
                               static_cast<uint8_t>(l.direction), static_cast<uint8_t>(l.lane / abi::lane_peers));
    message.link_proxy_away_us.push_back(l.proxy_away_us());
    message.link_first_step.push_back(first);
  }
}

RoundsMessage FinishedRounds::take_rounds(Instant now, bool everything) {
  RoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  std::vector<Pending> taken;
  while (!rounds_.empty() && (everything || !rounds_.front().open)) {
    Pending& front = rounds_.front();
    if (front.open) {
      for (LinkTrack& link : front.links) link.close(now.realtime_ns);
      --open_links_;
    }
    taken.push_back(std::move(front));
    rounds_.pop_front();
  }
  // A group may finish its operations in another order than they were entered.
  std::stable_sort(taken.begin(), taken.end(), [](const Pending& a, const Pending& b) {
    return a.round.op_seq != b.round.op_seq ? a.round.op_seq < b.round.op_seq : a.round.replay < b.round.replay;
  });
  std::vector<const Pending*> with_links;
  for (const Pending& pending : taken) {
    message.rounds.push_back(pending.round);
    if (!pending.links.empty()) with_links.push_back(&pending);
  }
  std::stable_sort(with_links.begin(), with_links.end(),
                   [](const Pending* a, const Pending* b) { return a->round.samples > b->round.samples; });
  for (const Pending* pending : with_links) {
    if (message.links.size() + pending->links.size() > links_per_message_max) break;
    add_links(*pending, message);
  }
  return message;
}

P2pRoundsMessage FinishedRounds::take_calls() {
  P2pRoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  message.rounds.assign(calls_.begin(), calls_.end());
  calls_.clear();
  return message;
}

}  // namespace ccld::probe
