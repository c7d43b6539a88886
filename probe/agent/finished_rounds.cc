#include "probe/agent/finished_rounds.h"

#include <algorithm>
#include <map>
#include <utility>

#include "probe/agent/records.h"

namespace ccld::probe {
namespace {

// `number`: what the rows of its links go by.
void add_links(const std::vector<LinkTrack>& links, uint64_t number, LinkColumns& columns) {
  for (const LinkTrack& l : links) {
    if (l.gpu.steps() == 0) continue;
    const StageMeans m = l.means();
    columns.links.emplace_back(number, m.gpu_ns, m.ready_ns, m.wire_ns, m.done_ns, l.peer,
                               l.has_proxy ? l.net_device : -1, l.gpu.steps(), l.channel,
                               static_cast<uint8_t>(l.direction), static_cast<uint8_t>(l.lane / abi::lane_peers));
    columns.link_proxy_away_us.push_back(l.proxy_away_us());
    columns.link_first_step.push_back(l.first_step());
  }
}

// As many as fit: of the kinds that take longest, and of a kind those that the other ends choose, too. Not the longest
// of a kind: they would tell of what happens now and then only.
template <class Pending, class Number>
void add_links(const std::vector<Pending>& taken, Number number, LinkColumns& columns) {
  struct Kind {
    uint64_t samples = 0, rounds = 0;
  };
  std::map<uint64_t, Kind> kinds;  // by the steps of the kernel
  const auto steps = [](const Pending& p) { return uint64_t{p.row.send_steps} << 32 | p.row.recv_steps; };
  std::vector<const Pending*> with_links;
  for (const Pending& pending : taken) {
    if (pending.links.empty()) continue;
    with_links.push_back(&pending);
    Kind& kind = kinds[steps(pending)];
    kind.samples += pending.samples, ++kind.rounds;
  }
  // By how many doublings long: the two ends count a sample more or less.
  const auto preference = [&](const Pending* p) {
    const Kind& kind = kinds[steps(*p)];
    return std::pair(-__builtin_clzll(kind.samples / kind.rounds | 1), wire::link_priority(number(p->row)));
  };
  std::stable_sort(with_links.begin(), with_links.end(),
                   [&](const Pending* a, const Pending* b) { return preference(a) > preference(b); });
  for (const Pending* pending : with_links) {
    if (!columns.links.empty() && columns.links.size() + pending->links.size() > links_per_message_max) break;
    add_links(pending->links, number(pending->row), columns);
  }
}

}  // namespace

template <class Row>
void FinishedRounds::add(std::deque<Pending<Row>>& rows, const Row& row, uint32_t samples, std::vector<LinkTrack> links,
                         Instant now) {
  if (rows.size() >= untimed_pending_max && (row.flags & flag(wire::RoundFlags::lapped)) != 0) {
    ++dropped_;
    return;
  }
  Pending<Row> pending;
  pending.row = row;
  pending.samples = samples;
  pending.finished_ns = now.monotonic_ns;
  pending.links = std::move(links);
  pending.open = !pending.links.empty();
  open_links_ += pending.open;
  rows.push_back(std::move(pending));
  if (rows.size() <= rounds_pending_max) return;
  open_links_ -= rows.front().open;
  sum(rows.front().row);
  rows.pop_front();
  ++dropped_;
}

void FinishedRounds::sum(const FinishedRound& round) {
  constexpr uint8_t asked = flag(wire::RoundFlags::counts_valid) | flag(wire::RoundFlags::shared_kernel);
  if ((round.flags & asked) == flag(wire::RoundFlags::counts_valid))
    dropped_sums_.add_run(round.send_steps, round.recv_steps, round.end_device_ns - round.begin_device_ns);
}

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
  add(rounds_, round, round.samples, std::move(links), now);
}

void FinishedRounds::add(const abi::P2pRecord& record, const FinishedRound& kernel, std::vector<LinkTrack> links,
                         Instant now) {
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
  add(calls_, call, kernel.samples, std::move(links), now);
}

template <class Row>
void FinishedRounds::close_links(std::deque<Pending<Row>>& rows, const ProxyWatch& proxies, Instant now) {
  for (Pending<Row>& pending : rows) {
    if (!pending.open) continue;
    proxies.update(pending.links, now);
    proxies.take_times(pending.links, now);
    const bool settled =
        std::all_of(pending.links.begin(), pending.links.end(), [](const LinkTrack& l) { return l.settled(); });
    if (!settled && now.monotonic_ns - pending.finished_ns < link_settle_ns) continue;
    for (LinkTrack& link : pending.links) link.close(now.realtime_ns);
    pending.open = false;
    --open_links_;
  }
}

void FinishedRounds::close_links(const ProxyWatch& proxies, Instant now) {
  if (open_links_ == 0) return;
  close_links(rounds_, proxies, now);
  close_links(calls_, proxies, now);
}

template <class Row>
std::vector<FinishedRounds::Pending<Row>> FinishedRounds::take(std::deque<Pending<Row>>& rows, Instant now,
                                                               bool everything) {
  std::vector<Pending<Row>> taken;
  while (!rows.empty() && (everything || !rows.front().open)) {
    Pending<Row>& front = rows.front();
    if (front.open) {
      for (LinkTrack& link : front.links) link.close(now.realtime_ns);
      --open_links_;
    }
    taken.push_back(std::move(front));
    rows.pop_front();
  }
  return taken;
}

RoundsMessage FinishedRounds::take_rounds(Instant now, bool everything) {
  RoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  std::vector<PendingRound> taken = take(rounds_, now, everything);
  // A group may finish its operations in another order than they were entered.
  std::stable_sort(taken.begin(), taken.end(), [](const PendingRound& a, const PendingRound& b) {
    return a.row.op_seq != b.row.op_seq ? a.row.op_seq < b.row.op_seq : a.row.replay < b.row.replay;
  });
  for (const PendingRound& pending : taken) message.rounds.push_back(pending.row);
  add_links(
      taken, [](const FinishedRound& round) { return round.op_seq; }, message);
  return message;
}

P2pRoundsMessage FinishedRounds::take_calls(Instant now, bool everything) {
  P2pRoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  const std::vector<PendingCall> taken = take(calls_, now, everything);
  for (const PendingCall& pending : taken) message.rounds.push_back(pending.row);
  add_links(
      taken, [](const FinishedP2p& call) { return call.pair_seq; }, message);
  return message;
}

}  // namespace ccld::probe
