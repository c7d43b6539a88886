#include "probe/agent/channel_endpoints.h"

#include <algorithm>

namespace ccld::probe {
namespace {

constexpr size_t endpoints_max = size_t{abi::directions} * abi::lanes_per_direction;

}  // namespace

void ChannelEndpoints::begin() {
  polled_ns_ = 0;
  ticks_known_ = false;
  in_use_[0] = in_use_[1] = 0;
}

LinkTrack& ChannelEndpoints::link_of(Kernel& kernel, Endpoint& endpoint, uint32_t channel, abi::Direction direction,
                                     uint32_t index) {
  const auto peer = static_cast<int32_t>(abi::lane_peer(endpoint.lane.peer_and_warps));
  const auto same = [&](const LinkTrack& l) {
    return l.channel == channel && l.direction == direction && l.lane == index && l.peer == peer;
  };
  if (endpoint.link < kernel.links.size() && same(kernel.links[endpoint.link])) return kernel.links[endpoint.link];
  const auto found = std::find_if(kernel.links.begin(), kernel.links.end(), same);
  endpoint.link = static_cast<size_t>(found - kernel.links.begin());
  if (found != kernel.links.end()) return *found;
  LinkTrack link;
  link.channel = static_cast<uint16_t>(channel);
  link.direction = direction;
  link.lane = static_cast<uint8_t>(index);
  link.peer = peer;
  link.base_step = endpoint.lane.base_step;
  kernel.links.push_back(link);
  return kernel.links.back();
}

void ChannelEndpoints::look(const abi::FrameView& frame, Kernel& kernel, uint32_t channel, uint32_t run, bool all,
                            Sampling& s) {
  if (endpoints_ == nullptr) endpoints_ = std::make_unique<Endpoint[]>(endpoints_max);
  abi::Lane lane;
  for (unsigned d = 0; d < abi::directions; ++d) {
    const auto direction = static_cast<abi::Direction>(d);
    for (uint32_t left = all ? ~uint32_t{0} : in_use_[d]; left != 0; left &= left - 1) {
      const auto i = static_cast<uint32_t>(__builtin_ctz(left));
      if (!frame.read_lane_of(channel, direction, i, run, &lane)) continue;
      in_use_[d] |= uint32_t{1} << i;
      Endpoint& endpoint = at(d, i);
      if (!endpoint.in_use || endpoint.run != run) {
        endpoint = Endpoint{};
        endpoint.run = run;
        endpoint.in_use = true;
        endpoint.lane = lane;
        endpoint.moved_ns = s.now.monotonic_ns;
        s.moved = true;
      }
      if (endpoint.lane.current_step != lane.current_step || endpoint.lane.base_step != lane.base_step ||
          endpoint.lane.peer_and_warps != lane.peer_and_warps) {
        endpoint.moved_ns = s.now.monotonic_ns;
        s.moved = true;
      }
      if (endpoint.lane.poll_tick != lane.poll_tick) endpoint.polled_ns = s.now.monotonic_ns;
      endpoint.lane = lane;
      LinkTrack& link = link_of(kernel, endpoint, channel, direction, i);
      link.gpu.reached(link.base_step, lane.current_step, steps_unlimited, s.now.happened_realtime_ns());
    }
  }
}

void ChannelEndpoints::look_at_polls(const abi::FrameView& frame, uint32_t channel, Instant now) {
  for (uint32_t w = 0; w < abi::warps_max; ++w) {
    const uint32_t tick = frame.warp_poll_tick(channel, w);
    if (!ticks_known_) {
      warp_polled_ns_[w] = 0;
    } else if (tick != warp_tick_[w]) {
      warp_polled_ns_[w] = polled_ns_ = now.monotonic_ns;
    }
    warp_tick_[w] = tick;
  }
  ticks_known_ = true;
}

bool ChannelEndpoints::warps_poll(const abi::Lane& lane, uint64_t poll_fresh_ns, Instant now) const {
  const uint32_t first = abi::lane_first_warp(lane.peer_and_warps);
  const uint32_t end = std::min(first + abi::lane_warp_count(lane.peer_and_warps), abi::warps_max);
  for (uint32_t w = first; w < end; ++w)
    if (warp_polled_ns_[w] != 0 && now.monotonic_ns - warp_polled_ns_[w] < poll_fresh_ns) return true;
  return false;
}

uint64_t ChannelEndpoints::polled_ns(const Endpoint& endpoint) const {
  uint64_t polled_ns = endpoint.polled_ns;
  const uint32_t first = abi::lane_first_warp(endpoint.lane.peer_and_warps);
  const uint32_t end = std::min(first + abi::lane_warp_count(endpoint.lane.peer_and_warps), abi::warps_max);
  for (uint32_t w = first; w < end; ++w) polled_ns = std::max(polled_ns, warp_polled_ns_[w]);
  return polled_ns;
}

void ChannelEndpoints::look_at_waits(const abi::FrameView& frame, const Kernel& kernel, uint32_t channel,
                                     uint64_t poll_fresh_ns, Instant now) {
  look_at_polls(frame, channel, now);
  abi::LaneObservation lanes[endpoints_max];
  Endpoint* endpoints[endpoints_max];
  size_t count = 0;
  for (unsigned d = 0; d < abi::directions; ++d) {
    for (uint32_t left = in_use_[d]; left != 0; left &= left - 1) {
      const auto i = static_cast<uint32_t>(__builtin_ctz(left));
      Endpoint& endpoint = at(d, i);
      abi::LaneObservation& o = lanes[count];
      o.lane = endpoint.lane;
      o.direction = static_cast<abi::Direction>(d);
      o.index = static_cast<uint8_t>(i);
      o.lane_polls = endpoint.polled_ns != 0 && now.monotonic_ns - endpoint.polled_ns < poll_fresh_ns;
      o.warps_poll = warps_poll(endpoint.lane, poll_fresh_ns, now);
      endpoints[count++] = &endpoint;
    }
  }
  abi::derive_waits(lanes, count, kernel.all_waits_announced);
  for (size_t i = 0; i < count; ++i) {
    Endpoint& endpoint = *endpoints[i];
    const abi::LaneObservation& o = lanes[i];
    if (o.wait != endpoint.wait || o.want_step != endpoint.want_step) endpoint.wait_since_ns = now.monotonic_ns;
    endpoint.wait = o.wait;
    endpoint.want_step = o.want_step;
    endpoint.certain = o.certain;
  }
}

void complete_links(Kernel& kernel, uint32_t channel, abi::Direction direction, uint32_t steps, uint32_t operations,
                    Instant now) {
  const auto visit = [&](auto function) {
    for (LinkTrack& link : kernel.links)
      if (link.channel == channel && link.direction == direction) function(link);
  };
  LinkTrack* other = nullptr;  // whose proxy does not tell
  size_t links = 0, told = 0;
  uint32_t told_steps = 0;
  visit([&](LinkTrack& link) {
    ++links;
    if (link.proxy_steps == 0) {
      other = &link;
    } else {
      ++told;
      told_steps += link.proxy_steps;
    }
  });
  const auto reached = [&](LinkTrack& link, uint32_t of_link) {
    link.gpu.reached(link.base_step, link.base_step + of_link, steps_unlimited, now.happened_realtime_ns());
  };
  if (links == 1) return visit([&](LinkTrack& link) { reached(link, steps); });
  if (other == nullptr ? told_steps != steps : operations != 1 || told + 1 != links || told_steps > steps) return;
  visit([&](LinkTrack& link) { reached(link, &link == other ? steps - told_steps : link.proxy_steps); });
}

}  // namespace ccld::probe
