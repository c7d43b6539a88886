// The proxies of a communicator: how far each connection is, when its proxy was last seen to look at it, and what that
// says of the links of a kernel.
// Threads: one at a time (the agent's lock).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "probe/agent/link_stages.h"
#include "probe/agent/sampling.h"

namespace ccld::probe {

class ProxyWatch {
 public:
  struct Proxy {
    bool known = false;
    abi::ProxyRecord record{};
    uint64_t tick_ns = 0;
    uint64_t moved_ns = 0;
  };

  // The frame must outlive it.
  explicit ProxyWatch(const abi::FrameView& frame);

  void sample(Sampling&);
  // Takes the stages of links up to what the last sample has seen.
  void update(std::vector<LinkTrack>&, Instant now) const;
  // Takes what proxies have told of the links of a kernel that has ended.
  void take_times(std::vector<LinkTrack>&, Instant now) const;

  const std::vector<Proxy>& all() const { return proxies_; }
  uint64_t tick_ns() const { return tick_ns_; }  // when a proxy thread was last seen to look; 0: never

 private:
  // Of those that serve the link's channel, direction and peer.
  std::optional<uint16_t> proxy_of(const LinkTrack&) const;
  std::vector<uint16_t>& at(uint32_t channel, abi::Direction direction) {
    return of_[channel * abi::directions + static_cast<unsigned>(direction)];
  }
  const std::vector<uint16_t>& at(uint32_t channel, abi::Direction direction) const {
    return of_[channel * abi::directions + static_cast<unsigned>(direction)];
  }

  const abi::FrameView& frame_;
  std::vector<Proxy> proxies_;
  std::vector<std::vector<uint16_t>> of_;  // by channel and direction: indices of proxies_
  uint64_t ticks_ = 0, tick_ns_ = 0;
  bool again_ = false;
};

}  // namespace ccld::probe
