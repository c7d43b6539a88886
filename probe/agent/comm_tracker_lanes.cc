// The part of CommTracker that looks into a running kernel: lanes, polls, waits, and the stages of links.
#include <algorithm>
#include <utility>

#include "probe/agent/comm_tracker.h"

namespace ccld::probe {
namespace {

constexpr size_t lanes_max = size_t{abi::directions} * abi::lanes_per_direction;

}  // namespace

LinkTrack& CommTracker::link_of(Kernel& kernel, LaneTrack& track, uint32_t index, abi::Direction direction,
                                uint32_t lane_number) {
  const auto peer = static_cast<int32_t>(abi::lane_peer(track.lane.peer_and_warps));
  const auto same = [&](const LinkTrack& l) {
    return l.channel == index && l.direction == direction && l.lane == lane_number && l.peer == peer;
  };
  if (track.link < kernel.links.size() && same(kernel.links[track.link])) return kernel.links[track.link];
  const auto found = std::find_if(kernel.links.begin(), kernel.links.end(), same);
  track.link = static_cast<size_t>(found - kernel.links.begin());
  if (found != kernel.links.end()) return *found;
  LinkTrack link;
  link.channel = static_cast<uint16_t>(index);
  link.direction = direction;
  link.lane = static_cast<uint8_t>(lane_number);
  link.peer = peer;
  link.base_step = track.lane.base_step;
  kernel.links.push_back(link);
  return kernel.links.back();
}

// `all`: also lanes that were not in use when it was looked at last.
void CommTracker::observe_lanes(Kernel& kernel, uint32_t index, uint32_t run, bool all) {
  ChannelTrack& ch = channels_[index];
  if (ch.lanes == nullptr) ch.lanes = std::make_unique<LaneTrack[]>(lanes_max);
  abi::Lane lane;
  for (unsigned d = 0; d < abi::directions; ++d) {
    const auto direction = static_cast<abi::Direction>(d);
    for (uint32_t left = all ? ~uint32_t{0} : ch.lanes_in_use[d]; left != 0; left &= left - 1) {
      const auto i = static_cast<uint32_t>(__builtin_ctz(left));
      if (!frame_.read_lane_of(index, direction, i, run, &lane)) continue;
      ch.lanes_in_use[d] |= uint32_t{1} << i;
      LaneTrack& track = ch.lane(d, i);
      if (!track.in_use || track.run != run) {
        track = LaneTrack{};
        track.run = run;
        track.in_use = true;
        track.lane = lane;
        track.moved_ns = now_.monotonic_ns;
        moved();
      }
      if (track.lane.current_step != lane.current_step || track.lane.base_step != lane.base_step ||
          track.lane.peer_and_warps != lane.peer_and_warps) {
        track.moved_ns = now_.monotonic_ns;
        moved();
      }
      if (track.lane.poll_tick != lane.poll_tick) track.polled_ns = now_.monotonic_ns;
      track.lane = lane;
      LinkTrack& link = link_of(kernel, track, index, direction, i);
      link.gpu.reached(link.base_step, lane.current_step, steps_unlimited, now_.realtime_ns);
    }
  }
}

// The kernel has ended on the channel: if it had one link in that direction, the steps between the last look and the
// end were that link's.
void CommTracker::complete_link(Kernel& kernel, uint32_t channel, abi::Direction direction, uint32_t steps) {
  LinkTrack* only = nullptr;
  for (LinkTrack& link : kernel.links) {
    if (link.channel != channel || link.direction != direction) continue;
    if (only != nullptr) return;
    only = &link;
  }
  if (only != nullptr) only->gpu.reached(only->base_step, only->base_step + steps, steps_unlimited, now_.realtime_ns);
}

void CommTracker::observe_polls(uint32_t index) {
  ChannelTrack& ch = channels_[index];
  for (uint32_t w = 0; w < abi::warps_max; ++w) {
    const uint32_t tick = frame_.warp_poll_tick(index, w);
    if (!ch.ticks_known) {
      ch.warp_polled_ns[w] = 0;
    } else if (tick != ch.warp_tick[w]) {
      ch.warp_polled_ns[w] = ch.polled_ns = now_.monotonic_ns;
    }
    ch.warp_tick[w] = tick;
  }
  ch.ticks_known = true;
}

bool CommTracker::lane_polls(const LaneTrack& track) const {
  return track.polled_ns != 0 && now_.monotonic_ns - track.polled_ns < options_.poll_fresh_ns;
}

bool CommTracker::warps_poll(const ChannelTrack& ch, const abi::Lane& lane) const {
  const uint32_t first = abi::lane_first_warp(lane.peer_and_warps);
  const uint32_t end = std::min(first + abi::lane_warp_count(lane.peer_and_warps), abi::warps_max);
  for (uint32_t w = first; w < end; ++w)
    if (ch.warp_polled_ns[w] != 0 && now_.monotonic_ns - ch.warp_polled_ns[w] < options_.poll_fresh_ns) return true;
  return false;
}

void CommTracker::observe_waits(const Kernel& kernel, uint32_t index) {
  ChannelTrack& ch = channels_[index];
  abi::LaneObservation lanes[lanes_max];
  LaneTrack* tracks[lanes_max];
  size_t count = 0;
  for (unsigned d = 0; d < abi::directions; ++d) {
    for (uint32_t left = ch.lanes_in_use[d]; left != 0; left &= left - 1) {
      const auto i = static_cast<uint32_t>(__builtin_ctz(left));
      LaneTrack& track = ch.lane(d, i);
      abi::LaneObservation& o = lanes[count];
      o.lane = track.lane;
      o.direction = static_cast<abi::Direction>(d);
      o.index = static_cast<uint8_t>(i);
      o.lane_polls = lane_polls(track);
      o.warps_poll = warps_poll(ch, track.lane);
      tracks[count++] = &track;
    }
  }
  abi::derive_waits(lanes, count, kernel.all_waits_announced);
  for (size_t i = 0; i < count; ++i) {
    LaneTrack& track = *tracks[i];
    const abi::LaneObservation& o = lanes[i];
    if (o.wait != track.wait || o.want_step != track.want_step) track.wait_since_ns = now_.monotonic_ns;
    track.wait = o.wait;
    track.want_step = o.want_step;
    track.certain = o.certain;
  }
}

void CommTracker::observe(Kernel& kernel, bool slow_look) {
  for (uint64_t left = kernel.begun & ~kernel.ended; left != 0; left &= left - 1) {
    const auto c = static_cast<uint32_t>(__builtin_ctzll(left));
    ChannelTrack& ch = channels_[c];
    // Its lanes open soon after a kernel has begun.
    const bool young = now_.monotonic_ns - ch.begun_seen_ns < slow_look_ns;
    observe_lanes(kernel, c, ch.runs.run(), slow_look || young);
    if (!slow_look && ch.ticks_known) continue;
    observe_polls(c);
    observe_waits(kernel, c);
  }
  update_links(kernel.links, now_.realtime_ns);
  uint32_t send = kernel.ended_send, recv = kernel.ended_recv;
  for (const LinkTrack& link : kernel.links)
    if ((kernel.ended >> link.channel & 1) == 0)
      (link.direction == abi::Direction::send ? send : recv) += link.gpu.steps();
  ++kernel.samples;
  if (send != kernel.send_steps) ++kernel.send_changes;
  if (recv != kernel.recv_steps) ++kernel.recv_changes;
  kernel.send_steps = send;
  kernel.recv_steps = recv;
}

// ---- proxies and links ---------------------------------------------------------------------------------------------

void CommTracker::sample_proxies() {
  const uint64_t ticks = frame_.proxy_ticks();
  const bool visited = ticks != proxy_ticks_;
  proxies_interval_ns_ = now_.monotonic_ns - std::exchange(proxies_sampled_ns_, now_.monotonic_ns);
  // The tick comes first: what it announces may only be there at the next look.
  if (!visited && !proxies_again_) return;
  proxies_again_ = visited;
  if (visited) proxy_tick_ns_ = now_.monotonic_ns;
  proxy_ticks_ = ticks;
  const uint32_t count = frame_.proxy_count();
  if (proxies_.size() < count) proxies_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    abi::ProxyRecord record{};
    if (!frame_.read_proxy(i, &record)) continue;
    ProxyTrack& track = proxies_[i];
    if (!track.known) {
      track.known = true;
      track.record = record;
      track.tick_ns = track.moved_ns = now_.monotonic_ns;
      if (record.channel >= 0 && static_cast<uint32_t>(record.channel) < channels_.size() &&
          record.direction < abi::directions)
        proxies_at(static_cast<uint32_t>(record.channel), static_cast<abi::Direction>(record.direction))
            .push_back(static_cast<uint16_t>(i));
      continue;
    }
    const abi::ProxyRecord& old = track.record;
    if (old.ticks != record.ticks) track.tick_ns = now_.monotonic_ns;
    if (old.base != record.base || old.posted != record.posted || old.received != record.received ||
        old.transmitted != record.transmitted || old.done != record.done) {
      track.moved_ns = now_.monotonic_ns;
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
    if (best == nullptr) continue;
    const bool unvisited = best->tick_ns != now_.monotonic_ns && proxies_interval_ns_ <= unvisited_interval_max_ns;
    link.proxy_reached(best->record, unvisited ? proxies_interval_ns_ : 0, realtime_ns);
  }
}

void CommTracker::close_links() {
  if (open_links_ == 0) return;
  for (PendingRound& pending : pending_) {
    if (!pending.open) continue;
    update_links(pending.links, now_.realtime_ns);
    const bool settled =
        std::all_of(pending.links.begin(), pending.links.end(), [](const LinkTrack& l) { return l.settled(); });
    if (!settled && now_.monotonic_ns - pending.finished_ns < link_settle_ns) continue;
    for (LinkTrack& link : pending.links) link.close(now_.realtime_ns);
    pending.open = false;
    --open_links_;
  }
}

}  // namespace ccld::probe
