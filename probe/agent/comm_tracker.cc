#include "probe/agent/comm_tracker.h"

#include <algorithm>

namespace ccld::probe {
namespace {

uint32_t age_ms(Instant now, uint64_t since_ns) {
  if (since_ns == 0) return age_never;
  if (since_ns >= now.monotonic_ns) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((now.monotonic_ns - since_ns) / ns_per_ms, age_never - 1));
}

bool has_channel(uint64_t mask, uint32_t channel) { return (mask >> channel & 1) != 0; }

// Every so many samples a kernel that has not begun is doubted: see later_kernel_ended().
constexpr uint64_t doubt_interval_samples = 16;

}  // namespace

CommTracker::CommTracker(const abi::FrameView& frame, uint64_t comm_uid, int rank, const TrackerOptions& options,
                         Instant now)
    : frame_(frame),
      comm_uid_(comm_uid),
      rank_(rank),
      options_(options),
      channels_(frame.channel_count()),
      proxies_(abi::proxies_max),
      proxies_of_(size_t{frame.channel_count()} * abi::directions),
      moved_ns_(now.monotonic_ns) {}

void CommTracker::sample(Instant now) {
  ++samples_;
  moved_in_sample_ = false;
  take_new_operations();
  if (busy()) sample_proxies(now);
  while (!operations_.empty()) {
    refresh_operations(now);
    pop_done();
    if (!choose_kernel()) break;
    bool ended = read_rounds(now);
    if (kernel_.begun) observe_kernel(now);
    if (!ended && !kernel_.begun && samples_ % doubt_interval_samples == 0) ended = later_kernel_ended();
    if (!ended) break;
    finish_kernel(now);
    pop_done();
  }
  close_links(now);
  if (moved_in_sample_) {
    ++movement_;
    moved_ns_ = now.monotonic_ns;
  }
}

// ---- operations --------------------------------------------------------------------------------------------------

void CommTracker::take_new_operations() {
  const uint64_t launched = frame_.launched_op_seq();
  const uint64_t entered = frame_.entered_op_seq();
  const uint64_t entered_p2p = frame_.entered_p2p();
  if (launched != launched_op_seq_ || entered_p2p != entered_p2p_) moved();
  launched_op_seq_ = launched;
  entered_p2p_ = entered_p2p;
  if (entered <= entered_op_seq_) return;
  moved();
  uint64_t next = entered_op_seq_ + 1;
  // Records that are overwritten already: only their number is known. Those read before are still followed.
  if (entered - entered_op_seq_ > abi::ops_max) {
    const uint64_t lost = entered - entered_op_seq_ - abi::ops_max;
    lapped_rounds_ += lost;
    next += lost;
    if (operations_.empty()) completed_op_seq_ = next - 1;
  }
  for (; next <= entered; ++next) {
    Operation operation;
    operation.op_seq = next;
    operations_.push_back(operation);
  }
  entered_op_seq_ = entered;
}

bool CommTracker::has_kernel(const Operation& o) const {
  if (!o.known || o.done || o.record.plan == 0 || (o.record.flags & abi::op_no_kernel) != 0) return false;
  if ((frame_.identity().mode & abi::mode_steps) == 0) return false;
  const uint32_t count = frame_.channel_count();
  const uint64_t present = count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  return (o.record.channel_mask & present) != 0;
}

// Reads what is not known yet, and completes what no watched kernel will carry.
void CommTracker::refresh_operations(Instant now) {
  for (Operation& o : operations_) {
    if (o.done) continue;
    if (!o.known || !o.launched()) {
      abi::OpRecord record{};
      const abi::Found found = frame_.read_operation(o.op_seq, &record);
      if (found == abi::Found::later) {  // it was never launched, or finished long ago
        if (o.known && o.record.plan != 0) continue;
        o.done = true;
        ++lapped_rounds_;
        continue;
      }
      if (found != abi::Found::yes) continue;
      if (o.known && record.plan != o.record.plan) moved();
      o.record = record;
      o.known = true;
    }
    const uint8_t flags = o.record.flags;
    const bool never_carried = (flags & abi::op_captured) != 0 ||
                               ((flags & abi::op_no_kernel) != 0 && o.record.plan == 0) ||
                               (o.launched() && !has_kernel(o));
    if (!never_carried) continue;
    FinishedRound round;
    round.flags = static_cast<uint8_t>(wire::RoundFlags::no_kernel);
    add_round(o, round, {}, now);
    o.done = true;
  }
}

void CommTracker::pop_done() {
  while (!operations_.empty() && operations_.front().done) {
    completed_op_seq_ = operations_.front().op_seq;
    operations_.pop_front();
    moved();
  }
}

wire::OpSignature CommTracker::signature(const abi::OpRecord& r) const {
  return wire::OpSignature(r.count, r.root, r.function, r.datatype, r.reduction, r.algorithm, r.protocol, r.flags,
                           r.channel_count);
}

// ---- the kernel that is followed ---------------------------------------------------------------------------------

// The oldest kernel that carries an operation in flight. False: there is none.
bool CommTracker::choose_kernel() {
  uint32_t token = 0;
  uint64_t mask = 0;
  bool simple = true;
  for (const Operation& o : operations_) {
    if (!has_kernel(o)) continue;
    const uint32_t plan = o.record.plan;
    if (token == 0 || abi::distance(token, plan) < 0) {
      token = plan;
      mask = 0;
      simple = true;
    }
    if (plan != token) continue;
    mask |= o.record.channel_mask;
    simple &= o.record.protocol == static_cast<uint8_t>(abi::Protocol::simple);
  }
  if (token != kernel_.token) {
    kernel_ = Kernel{};
    kernel_.token = token;
  }
  kernel_.channel_mask = mask;
  kernel_.all_waits_announced = simple;
  return token != 0;
}

bool CommTracker::read_rounds(Instant now) {
  bool all_ended = true;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    if (!has_channel(kernel_.channel_mask, c)) continue;
    ChannelTrack& ch = channels_[c];
    if (ch.token != kernel_.token) {
      ch.token = kernel_.token;
      ch.begun = ch.ended = ch.lapped = ch.overwritten = ch.final_counts = ch.ticks_known = false;
      ch.begun_seen_ns = ch.polled_ns = 0;
      ch.begin = ch.end = abi::RoundEdge{};
    }
    if (!ch.begun) {
      const abi::Found found = frame_.read_begin(c, kernel_.token, &ch.begin);
      if (found == abi::Found::yes || found == abi::Found::later) {
        ch.begun = true;
        ch.lapped |= found == abi::Found::later;
        ch.begun_seen_ns = now.monotonic_ns;
        moved();
      }
    }
    if (!ch.ended) {
      const abi::Found found = frame_.read_end(c, kernel_.token, &ch.end);
      if (found == abi::Found::yes || found == abi::Found::later || ch.lapped) {
        if (!ch.begun) ch.begun_seen_ns = now.monotonic_ns;
        ch.begun = ch.ended = true;
        ch.lapped |= found != abi::Found::yes;
        moved();
      }
    }
    kernel_.begun |= ch.begun;
    all_ended &= ch.ended;
  }
  return all_ended;
}

// Kernels of one communicator run one after the other: if a later one has ended, this one did too, by means that left
// no trace in the rows of its channels. Without this a wrong channel mask would be taken for a hang.
bool CommTracker::later_kernel_ended() const {
  abi::RoundEdge edge;
  for (const Operation& o : operations_) {
    if (!has_kernel(o) || abi::distance(kernel_.token, o.record.plan) <= 0) continue;
    for (uint32_t c = 0; c < channels_.size(); ++c)
      if (has_channel(o.record.channel_mask, c) && frame_.read_end(c, o.record.plan, &edge) == abi::Found::yes)
        return true;
  }
  return false;
}

LinkTrack& CommTracker::link_of(LaneTrack& track, uint32_t index, abi::Direction direction, uint32_t lane_number) {
  const auto peer = static_cast<int32_t>(abi::lane_peer(track.lane.peer_and_warps));
  const auto same = [&](const LinkTrack& l) {
    return l.channel == index && l.direction == direction && l.lane == lane_number && l.peer == peer;
  };
  if (track.link < kernel_.links.size() && same(kernel_.links[track.link])) return kernel_.links[track.link];
  const auto found = std::find_if(kernel_.links.begin(), kernel_.links.end(), same);
  track.link = static_cast<size_t>(found - kernel_.links.begin());
  if (found != kernel_.links.end()) return *found;
  LinkTrack link;
  link.channel = static_cast<uint16_t>(index);
  link.direction = direction;
  link.lane = static_cast<uint8_t>(lane_number);
  link.peer = peer;
  link.base_step = track.lane.base_step;
  kernel_.links.push_back(link);
  return kernel_.links.back();
}

void CommTracker::observe_channel(uint32_t index, Instant now) {
  ChannelTrack& ch = channels_[index];
  abi::Lane lane;
  for (unsigned d = 0; d < abi::directions; ++d) {
    for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
      const auto direction = static_cast<abi::Direction>(d);
      if (!frame_.read_lane(index, direction, i, &lane)) continue;
      LaneTrack& track = ch.lanes[d][i];
      if (lane.token != kernel_.token) {
        if (abi::distance(kernel_.token, lane.token) <= 0) continue;
        const bool ours = track.in_use && track.token == kernel_.token;
        if (ours ? recover_final_step(track, lane, now) : kernel_.lanes_known()) continue;
        ch.overwritten = true;
        return;
      }
      if (!track.in_use || track.token != kernel_.token) {
        track = LaneTrack{};
        track.token = kernel_.token;
        track.in_use = true;
        track.lane = lane;
        track.moved_ns = now.monotonic_ns;
        moved();
      }
      if (track.lane.current_step != lane.current_step || track.lane.base_step != lane.base_step ||
          track.lane.peer_and_warps != lane.peer_and_warps) {
        track.moved_ns = now.monotonic_ns;
        moved();
      }
      if (track.lane.poll_tick != lane.poll_tick) track.polled_ns = now.monotonic_ns;
      track.lane = lane;
      LinkTrack& link = link_of(track, index, direction, i);
      link.gpu.reached(link.base_step, lane.current_step, steps_unlimited, now.realtime_ns);
    }
  }
}

// The very next kernel on the same connection begins where this one ended: its lane tells the steps that were posted
// between the last sample and the end. (Rounded up to a chunk at most, like every kernel's first step.)
bool CommTracker::recover_final_step(LaneTrack& track, const abi::Lane& successor, Instant now) {
  constexpr int32_t steps_max = 1 << 20;  // more between two samples is another connection
  const int32_t missing = abi::distance(track.lane.current_step, successor.base_step);
  if (successor.token - kernel_.token != 1 || missing < 0 || missing > steps_max ||
      abi::lane_peer(successor.peer_and_warps) != abi::lane_peer(track.lane.peer_and_warps))
    return false;
  if (track.link >= kernel_.links.size()) return false;
  LinkTrack& link = kernel_.links[track.link];
  link.gpu.reached(link.base_step, successor.base_step, steps_unlimited, now.realtime_ns);
  track.lane.current_step = successor.base_step;
  return true;
}

void CommTracker::observe_polls(uint32_t index, Instant now) {
  ChannelTrack& ch = channels_[index];
  for (uint32_t w = 0; w < abi::warps_max; ++w) {
    const uint32_t tick = frame_.warp_poll_tick(index, w);
    if (!ch.ticks_known) {
      ch.warp_polled_ns[w] = 0;
    } else if (tick != ch.warp_tick[w]) {
      ch.warp_polled_ns[w] = ch.polled_ns = now.monotonic_ns;
    }
    ch.warp_tick[w] = tick;
  }
  ch.ticks_known = true;
}

bool CommTracker::lane_polls(const LaneTrack& track, Instant now) const {
  return track.polled_ns != 0 && now.monotonic_ns - track.polled_ns < options_.poll_fresh_ns;
}

bool CommTracker::warps_poll(const ChannelTrack& ch, const abi::Lane& lane, Instant now) const {
  const uint32_t first = abi::lane_first_warp(lane.peer_and_warps);
  const uint32_t end = std::min(first + abi::lane_warp_count(lane.peer_and_warps), abi::warps_max);
  for (uint32_t w = first; w < end; ++w)
    if (ch.warp_polled_ns[w] != 0 && now.monotonic_ns - ch.warp_polled_ns[w] < options_.poll_fresh_ns) return true;
  return false;
}

void CommTracker::observe_waits(uint32_t index, Instant now) {
  ChannelTrack& ch = channels_[index];
  abi::LaneObservation lanes[abi::directions * abi::lanes_per_direction];
  LaneTrack* tracks[abi::directions * abi::lanes_per_direction];
  size_t count = 0;
  for (unsigned d = 0; d < abi::directions; ++d) {
    for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
      LaneTrack& track = ch.lanes[d][i];
      if (!track.in_use || track.token != kernel_.token) continue;
      abi::LaneObservation& o = lanes[count];
      o.lane = track.lane;
      o.direction = static_cast<abi::Direction>(d);
      o.index = static_cast<uint8_t>(i);
      o.lane_polls = !ch.ended && lane_polls(track, now);
      o.warps_poll = !ch.ended && warps_poll(ch, track.lane, now);
      tracks[count++] = &track;
    }
  }
  abi::derive_waits(lanes, count, kernel_.all_waits_announced);
  for (size_t i = 0; i < count; ++i) {
    LaneTrack& track = *tracks[i];
    const abi::LaneObservation& o = lanes[i];
    if (o.wait != track.wait || o.want_step != track.want_step) track.wait_since_ns = now.monotonic_ns;
    track.wait = o.wait;
    track.want_step = o.want_step;
    track.certain = o.certain;
  }
}

void CommTracker::observe_kernel(Instant now) {
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    if (!has_channel(kernel_.channel_mask, c)) continue;
    ChannelTrack& ch = channels_[c];
    if (!ch.begun || ch.final_counts) continue;
    // The rows were read before the lanes: if the end was there, the lanes are final.
    observe_channel(c, now);
    observe_polls(c, now);
    observe_waits(c, now);
    ch.final_counts = ch.ended;
  }
  update_links(kernel_.links, now.realtime_ns);
  uint32_t send = 0, recv = 0;
  for (const LinkTrack& link : kernel_.links)
    (link.direction == abi::Direction::send ? send : recv) += link.gpu.steps();
  ++kernel_.samples;
  if (send != kernel_.send_steps) ++kernel_.send_changes;
  if (recv != kernel_.recv_steps) ++kernel_.recv_changes;
  kernel_.send_steps = send;
  kernel_.recv_steps = recv;
}

void CommTracker::finish_kernel(Instant now) {
  FinishedRound measured;
  bool lapped = false, counts_valid = !kernel_.links.empty();
  uint64_t begin_ns = ~uint64_t{0}, end_ns = 0;
  uint32_t end_flags = 0;
  for (uint32_t c = 0; c < channels_.size(); ++c) {
    if (!has_channel(kernel_.channel_mask, c)) continue;
    const ChannelTrack& ch = channels_[c];
    lapped |= ch.lapped || !ch.ended;
    counts_valid &= ch.final_counts && !ch.overwritten;
    begin_ns = std::min(begin_ns, ch.begin.device_ns);
    end_ns = std::max(end_ns, ch.end.device_ns);
    end_flags |= ch.end.flags;
  }
  if (!lapped) {
    measured.begin_device_ns = begin_ns;
    measured.end_device_ns = end_ns;
  }
  measured.send_steps = kernel_.send_steps;
  measured.recv_steps = kernel_.recv_steps;
  measured.send_changes = kernel_.send_changes;
  measured.recv_changes = kernel_.recv_changes;
  measured.samples = kernel_.samples;
  measured.flags = static_cast<uint8_t>(
      (counts_valid ? static_cast<unsigned>(wire::RoundFlags::counts_valid) : 0) |
      ((end_flags & abi::round_aborted) != 0 ? static_cast<unsigned>(wire::RoundFlags::aborted) : 0) |
      (lapped ? static_cast<unsigned>(wire::RoundFlags::lapped) : 0));
  std::vector<LinkTrack> links;
  if (kernel_.samples >= link_samples_min) links = std::move(kernel_.links);
  for (LinkTrack& link : links) link.limit = link.gpu.steps();
  for (Operation& o : operations_) {
    if (!has_kernel(o) || o.record.plan != kernel_.token) continue;
    lapped_rounds_ += lapped;
    // A short kernel may end before its launch has returned to the user thread.
    abi::OpRecord record{};
    if (!o.launched() && frame_.read_operation(o.op_seq, &record) == abi::Found::yes) o.record = record;
    add_round(o, measured, std::move(links), now);
    links.clear();  // of the first operation that the kernel carried
    o.done = true;
  }
  kernel_ = Kernel{};
  moved();
}

void CommTracker::add_round(const Operation& o, FinishedRound round, std::vector<LinkTrack> links, Instant now) {
  if (!options_.keep_rounds) return;
  round.op_seq = o.op_seq;
  round.signature = signature(o.record);
  round.enter_monotonic_ns = o.record.enter_monotonic_ns;
  round.launch_monotonic_ns = o.record.launch_monotonic_ns;
  PendingRound pending;
  pending.round = round;
  pending.finished_ns = now.monotonic_ns;
  pending.links = std::move(links);
  pending.open = !pending.links.empty();
  open_links_ += pending.open;
  pending_.push_back(std::move(pending));
  if (pending_.size() <= rounds_pending_max) return;
  open_links_ -= pending_.front().open;
  pending_.pop_front();
  ++dropped_rounds_;
}

// ---- proxies and links -------------------------------------------------------------------------------------------

void CommTracker::sample_proxies(Instant now) {
  const uint64_t ticks = frame_.proxy_ticks();
  if (ticks != proxy_ticks_) proxy_tick_ns_ = now.monotonic_ns;
  proxy_ticks_ = ticks;
  const uint32_t count = frame_.proxy_count();
  for (uint32_t i = 0; i < count; ++i) {
    abi::ProxyRecord record{};
    if (!frame_.read_proxy(i, &record)) continue;
    ProxyTrack& track = proxies_[i];
    if (!track.known) {
      track.known = true;
      track.record = record;
      track.tick_ns = track.moved_ns = now.monotonic_ns;
      if (record.channel >= 0 && static_cast<uint32_t>(record.channel) < channels_.size() &&
          record.direction < abi::directions)
        proxies_at(static_cast<uint32_t>(record.channel), static_cast<abi::Direction>(record.direction))
            .push_back(static_cast<uint16_t>(i));
      continue;
    }
    const abi::ProxyRecord& old = track.record;
    if (old.ticks != record.ticks) track.tick_ns = now.monotonic_ns;
    if (old.base != record.base || old.posted != record.posted || old.received != record.received ||
        old.transmitted != record.transmitted || old.done != record.done) {
      track.moved_ns = now.monotonic_ns;
      moved();
    }
    track.record = record;
  }
}

void CommTracker::update_links(std::vector<LinkTrack>& links, int64_t realtime_ns) const {
  for (LinkTrack& link : links) {
    const ProxyTrack* best = nullptr;
    int64_t best_gap = 0;
    // Two connections may join the same peers on a channel; the kernel's is the one that began nearest to the lane's
    // first step.
    for (const uint16_t i : proxies_at(link.channel, link.direction)) {
      const ProxyTrack& proxy = proxies_[i];
      if (proxy.record.peer != link.peer) continue;
      const int64_t gap = std::abs(int64_t{abi::distance(static_cast<uint32_t>(proxy.record.base), link.base_step)});
      if (best != nullptr && gap >= best_gap) continue;
      best = &proxy;
      best_gap = gap;
    }
    if (best != nullptr) link.proxy_reached(best->record, realtime_ns);
  }
}

void CommTracker::close_links(Instant now) {
  if (open_links_ == 0) return;
  for (PendingRound& pending : pending_) {
    if (!pending.open) continue;
    update_links(pending.links, now.realtime_ns);
    const bool settled =
        std::all_of(pending.links.begin(), pending.links.end(), [](const LinkTrack& l) { return l.settled(); });
    if (!settled && now.monotonic_ns - pending.finished_ns < link_settle_ns) continue;
    for (LinkTrack& link : pending.links) link.close(now.realtime_ns);
    pending.open = false;
    --open_links_;
  }
}

// ---- reports -----------------------------------------------------------------------------------------------------

RoundsMessage CommTracker::take_rounds(Instant now, bool everything) {
  RoundsMessage message;
  message.comm_uid = comm_uid_;
  message.rank = rank_;
  std::vector<PendingRound> taken;
  while (!pending_.empty() && (everything || !pending_.front().open)) {
    PendingRound& front = pending_.front();
    if (front.open) {
      for (LinkTrack& link : front.links) link.close(now.realtime_ns);
      --open_links_;
    }
    taken.push_back(std::move(front));
    pending_.pop_front();
  }
  // A group may finish its operations in another order than they were entered.
  std::sort(taken.begin(), taken.end(),
            [](const PendingRound& a, const PendingRound& b) { return a.round.op_seq < b.round.op_seq; });
  std::vector<const PendingRound*> with_links;
  for (const PendingRound& pending : taken) {
    message.rounds.push_back(pending.round);
    if (!pending.links.empty()) with_links.push_back(&pending);
  }
  std::stable_sort(with_links.begin(), with_links.end(),
                   [](const PendingRound* a, const PendingRound* b) { return a->round.samples > b->round.samples; });
  for (const PendingRound* pending : with_links) {
    if (message.links.size() + pending->links.size() > links_per_message_max) break;
    for (const LinkTrack& l : pending->links) {
      if (l.gpu.steps() == 0) continue;
      const int64_t ready = l.direction == abi::Direction::send ? l.gpu.mean_ns() : l.ready.mean_ns();
      message.links.emplace_back(pending->round.op_seq, l.gpu.mean_ns(), ready, l.wire.mean_ns(), l.done.mean_ns(),
                                 l.peer, l.has_proxy ? l.net_device : -1, l.gpu.steps(), l.channel,
                                 static_cast<uint8_t>(l.direction), static_cast<uint8_t>(l.lane / abi::lane_peers));
    }
  }
  return message;
}

InFlightMessage CommTracker::in_flight_message(Instant now) const {
  InFlightMessage m;
  m.comm_uid = comm_uid_;
  m.rank = rank_;
  m.sample_monotonic_ns = now.monotonic_ns;
  m.entered_op_seq = entered_op_seq_;
  m.launched_op_seq = launched_op_seq_;
  m.completed_op_seq = completed_op_seq_;
  m.moved_age_ms = age_ms(now, moved_ns_);
  m.movement = movement_;
  m.proxy_tick_age_ms = age_ms(now, proxy_tick_ns_);
  m.late = late(now);
  m.state = static_cast<uint32_t>(frame_.state());
  const Operation* carried = nullptr;  // the first operation of the kernel that is followed
  for (const Operation& o : operations_) {
    if (o.done) continue;
    ++m.operations_total;
    if (carried == nullptr && kernel_.token != 0 && has_kernel(o) && o.record.plan == kernel_.token) carried = &o;
  }
  if (m.operations_total == 0) return m;

  const auto report = [&](const Operation& o) {
    OperationInFlight r;
    r.op_seq = o.op_seq;
    r.signature = signature(o.record);
    r.plan = o.record.plan;
    r.enter_age_ms = o.known ? age_ms(now, o.record.enter_monotonic_ns) : 0;
    r.launched = o.launched();
    r.launch_age_ms = r.launched && o.record.launch_monotonic_ns != 0 ? age_ms(now, o.record.launch_monotonic_ns) : 0;
    r.begun = kernel_.token != 0 && o.record.plan == kernel_.token && kernel_.begun;
    if (&o != carried) return r;
    for (uint32_t c = 0; c < channels_.size(); ++c) {
      if (!has_channel(kernel_.channel_mask, c)) continue;
      const ChannelTrack& ch = channels_[c];
      const bool current = ch.token == kernel_.token;
      uint32_t send = 0, recv = 0;
      for (const LinkTrack& l : kernel_.links)
        if (l.channel == c) (l.direction == abi::Direction::send ? send : recv) += l.gpu.steps();
      r.channels.emplace_back(kernel_.token, static_cast<uint16_t>(c), current && ch.begun, current && ch.ended,
                              current && ch.begun ? age_ms(now, ch.begun_seen_ns) : 0,
                              current ? age_ms(now, ch.polled_ns) : age_never, send, recv);
    }
    return r;
  };
  for (const Operation& o : operations_) {
    if (o.done) continue;
    if (m.operations.size() == operations_reported_max) break;
    m.operations.push_back(report(o));
  }
  // The running one is reported even if a group has entered many before it.
  if (carried != nullptr && carried->op_seq > m.operations.back().op_seq) m.operations.back() = report(*carried);

  for (uint32_t c = 0; c < channels_.size(); ++c) {
    const ChannelTrack& ch = channels_[c];
    if (kernel_.token == 0 || ch.token != kernel_.token || !has_channel(kernel_.channel_mask, c)) continue;
    for (unsigned d = 0; d < abi::directions; ++d) {
      for (uint32_t i = 0; i < abi::lanes_per_direction; ++i) {
        const LaneTrack& t = ch.lanes[d][i];
        if (!t.in_use || t.token != kernel_.token) continue;
        const bool waits = t.wait != abi::WaitKind::none;
        // A group that polls in LL or LL128 does so on behalf of its lanes.
        uint64_t polled_ns = t.polled_ns;
        const uint32_t first = abi::lane_first_warp(t.lane.peer_and_warps);
        const uint32_t end = std::min(first + abi::lane_warp_count(t.lane.peer_and_warps), abi::warps_max);
        for (uint32_t w = first; w < end; ++w) polled_ns = std::max(polled_ns, ch.warp_polled_ns[w]);
        const auto seen =
            static_cast<abi::WaitKind>(t.lane.wait_kind) == t.wait ? t.lane.seen_step : t.lane.current_step;
        m.lanes.emplace_back(t.token, t.lane.current_step, t.lane.base_step, waits ? t.want_step : 0, waits ? seen : 0,
                             static_cast<int32_t>(abi::lane_peer(t.lane.peer_and_warps)),
                             waits ? age_ms(now, t.wait_since_ns) : 0, age_ms(now, polled_ns), age_ms(now, t.moved_ns),
                             static_cast<uint16_t>(c), static_cast<uint8_t>(d),
                             static_cast<uint8_t>(i / abi::lane_peers), static_cast<uint8_t>(i % abi::lane_peers),
                             static_cast<uint8_t>(t.wait), t.certain, uint8_t{0});
      }
    }
  }
  for (const ProxyTrack& p : proxies_) {
    if (!p.known) continue;
    const abi::ProxyRecord& r = p.record;
    m.proxies.emplace_back(r.base, r.posted, r.received, r.transmitted, r.done, r.step_count, r.operation, r.peer,
                           r.net_device, age_ms(now, p.tick_ns), age_ms(now, p.moved_ns),
                           static_cast<uint16_t>(r.channel), r.direction, uint8_t{0});
  }
  return m;
}

}  // namespace ccld::probe
