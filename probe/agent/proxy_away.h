// For how long the proxy of one connection end did not look at it while it had steps of a kernel before it.
//
// The progress thread itself sums the gaps between its visits (ProxyRecord), so nothing is missed where the diagnostic
// thread seldom runs. What is added here is what only an observer can tell: how late it began, and a gap that lasts.
//
// Threads: the diagnostic thread.
#pragma once

#include <algorithm>
#include <cstdint>

#include "schemas/abi/frame.h"

namespace ccld::probe {

class ProxyAway {
 public:
  // `ahead`: steps between the first of the kernel and the first of the proxy's operation; below 0, it works for an
  // earlier one. `awaited`: there is something to do for the kernel.
  void look(const abi::ProxyRecord& proxy, int32_t ahead, bool awaited, uint64_t now_ns) {
    if (first_ns_ == 0) first_ns_ = now_ns;
    looked_ns_ = now_ns;
    lasting_ns_ = 0;
    if (ahead < 0) {
      if (awaited) late_ns_ = gap(first_ns_, now_ns);
      return;
    }
    if (ahead == 0) {
      begun_ = true;
      away_before_ns_ = proxy.away_before_ns;
      next_base_ = proxy.base + proxy.step_count;
      late_ns_ = gap(first_ns_, proxy.began_ns);
      between_ns_ = since(away_before_ns_, proxy.away_ns);
      if (awaited) lasting_ns_ = gap(proxy.visited_ns, now_ns);
    } else if (begun_ && proxy.base == next_base_) {
      between_ns_ = since(away_before_ns_, proxy.away_before_ns);
    }
  }
  // Of the time since it was first looked at.
  uint64_t ns() const { return std::min(late_ns_ + between_ns_ + lasting_ns_, looked_ns_ - first_ns_); }

 private:
  static uint64_t since(uint64_t from, uint64_t to) { return to > from ? to - from : 0; }
  static uint64_t gap(uint64_t from_ns, uint64_t to_ns) {
    const uint64_t ns = since(from_ns, to_ns);
    return ns >= abi::proxy_away_min_ns ? ns : 0;
  }

  uint64_t first_ns_ = 0, looked_ns_ = 0;
  uint64_t late_ns_ = 0;     // until it began
  uint64_t between_ns_ = 0;  // between its visits
  uint64_t lasting_ns_ = 0;  // since the newest
  bool begun_ = false;
  uint64_t away_before_ns_ = 0, next_base_ = 0;
};

}  // namespace ccld::probe
