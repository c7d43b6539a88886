// A kernel of a communicator: the runs of one launch, or of one replay of a graph, on its channels.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/agent/link_stages.h"
#include "probe/agent/records.h"

namespace ccld::probe {

// What a kernel carries, as found in the records.
struct Cargo {
  uint64_t channel_mask = 0;
  uint32_t items = 0;
  bool captured = false;
  bool all_waits_announced = true;

  void add(const Rows& rows, const abi::OpRecord& record) {
    channel_mask |= rows.channels(record);
    ++items;
    all_waits_announced &= record.protocol == static_cast<uint8_t>(abi::Protocol::simple);
  }
  void add(const Rows& rows, const abi::P2pRecord& record) {
    channel_mask |= rows.channels(record);
    ++items;
    all_waits_announced = false;
  }
};

// What a kernel has done on one channel.
struct ChannelShare {
  uint32_t channel = 0;
  uint32_t send_steps = 0, recv_steps = 0;
  uint64_t busy_ns = 0;
};

// One that has begun and not ended.
struct Kernel {
  uint32_t token = 0;
  bool captured = false;
  uint32_t replay = 0;
  uint32_t lowest_run = 0;  // on the lowest channel; 0: not begun there
  uint64_t channel_mask = 0;
  uint64_t begun = 0, ended = 0;     // of channel_mask
  bool all_waits_announced = false;  // all its operations use the Simple protocol
  bool lapped = false;
  bool replay_awaited = false;  // it has ended, and its index was not to be seen
  bool counts_valid = true;
  uint32_t end_flags = 0;
  uint64_t first_begin_ns = 0;  // of the run that was seen first
  uint64_t begin_ns = ~uint64_t{0}, end_ns = 0;
  uint32_t samples = 0;
  uint32_t send_steps = 0, recv_steps = 0;  // of the last sample
  uint32_t ended_send = 0, ended_recv = 0;  // of the channels that have ended, exact
  uint32_t send_changes = 0, recv_changes = 0;
  std::vector<LinkTrack> links;
  std::vector<ChannelShare> shares;  // of the channels that have ended and whose counts are known
};

}  // namespace ccld::probe
