// The newest snapshot of a rank: what it shows, and how much of it is kept.
// Pure.
#pragma once

#include "decision/model/events.h"

namespace ccld::decision {

bool shows_replay(const InFlight&);          // one that has begun
bool shows_p2p(const InFlight&);             // a launched Send or Recv
uint64_t waiting_channels(const InFlight&);  // bit of each channel on which a lane waits

// `last` becomes `next`; without lanes, channels and proxies, unless they tell of a standstill.
void keep(InFlight& last, const InFlight& next);

struct ByChannel {
  bool operator()(const LaneState& a, int channel) const { return a.channel < channel; }
  bool operator()(int channel, const LaneState& b) const { return channel < b.channel; }
  bool operator()(const LaneState& a, const LaneState& b) const { return a.channel < b.channel; }
};

}  // namespace ccld::decision
