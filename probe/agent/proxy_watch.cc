#include "probe/agent/proxy_watch.h"

#include <cstdlib>

namespace ccld::probe {

ProxyWatch::ProxyWatch(const abi::FrameView& frame)
    : frame_(frame), of_(size_t{frame.channel_count()} * abi::directions) {}

void ProxyWatch::sample(Sampling& s) {
  const uint64_t ticks = frame_.proxy_ticks();
  const bool visited = ticks != ticks_;
  // The tick comes first: what it announces may only be there at the next look.
  if (!visited && !again_) return;
  again_ = visited;
  if (visited) tick_ns_ = s.now.monotonic_ns;
  ticks_ = ticks;
  const uint32_t count = frame_.proxy_count();
  if (proxies_.size() < count) proxies_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    abi::ProxyRecord record{};
    if (!frame_.read_proxy(i, &record)) continue;
    Proxy& proxy = proxies_[i];
    if (!proxy.known) {
      proxy.known = true;
      proxy.record = record;
      proxy.tick_ns = proxy.moved_ns = s.now.monotonic_ns;
      if (record.channel >= 0 && static_cast<uint32_t>(record.channel) < frame_.channel_count() &&
          record.direction < abi::directions)
        at(static_cast<uint32_t>(record.channel), static_cast<abi::Direction>(record.direction))
            .push_back(static_cast<uint16_t>(i));
      continue;
    }
    const abi::ProxyRecord& old = proxy.record;
    if (old.ticks != record.ticks) proxy.tick_ns = s.now.monotonic_ns;
    if (old.base != record.base || old.posted != record.posted || old.received != record.received ||
        old.transmitted != record.transmitted || old.done != record.done) {
      proxy.moved_ns = s.now.monotonic_ns;
      s.moved = true;
    }
    proxy.record = record;
  }
}

// Two connections may join the same peers on a channel; the kernel's is the one that began nearest to the endpoint's
// first step.
std::optional<uint16_t> ProxyWatch::proxy_of(const LinkTrack& link) const {
  std::optional<uint16_t> best;
  int64_t best_gap = 0;
  for (const uint16_t i : at(link.channel, link.direction)) {
    const abi::ProxyRecord& record = proxies_[i].record;
    if (record.peer != link.peer) continue;
    const int64_t gap = std::abs(int64_t{abi::distance(static_cast<uint32_t>(record.base), link.base_step)});
    if (best && gap >= best_gap) continue;
    best = i;
    best_gap = gap;
  }
  return best;
}

void ProxyWatch::update(std::vector<LinkTrack>& links, Instant now) const {
  for (LinkTrack& link : links)
    if (const auto proxy = proxy_of(link)) link.proxy_reached(proxies_[*proxy].record, now);
}

void ProxyWatch::take_times(std::vector<LinkTrack>& links, Instant now) const {
  for (LinkTrack& link : links) {
    if (!link.has_proxy || link.is_told()) continue;
    const auto proxy = proxy_of(link);
    abi::ProxyOperationTimes times[abi::times_operations];
    if (!proxy || !frame_.read_proxy_times(*proxy, times)) continue;
    const abi::ProxyOperationTimes* its = nullptr;
    for (const abi::ProxyOperationTimes& of : times)
      if (of.began_ns != 0 && static_cast<uint32_t>(of.base) == link.base_step &&
          (its == nullptr || of.began_ns > its->began_ns))
        its = &of;
    if (its != nullptr) link.told_times(*its, now);
  }
}

}  // namespace ccld::probe
