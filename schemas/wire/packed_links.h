// Stages of connection ends, packed as calls are (packed_calls.h): what is likely of a row is what the row of the same
// connection end said of the operation before.
//
// Contract: pure; unpack() takes any bytes. Nothing is rounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccld::wire {

// LinkStages of telemetry.fbs with the columns beside it; their meanings and units.
struct LinkRow {
  uint64_t op_seq = 0;
  int64_t gpu_mean_realtime_ns = 0, ready_mean_realtime_ns = 0, wire_mean_realtime_ns = 0, done_mean_realtime_ns = 0;
  int32_t peer = 0, net_device = 0;
  uint32_t steps = 0, first_step = 0, proxy_away_us = 0;
  uint16_t channel = 0;
  uint8_t direction = 0, group = 0;
};

std::vector<uint8_t> pack(std::vector<LinkRow> rows);
// False: the bytes are not so many rows.
bool unpack(const uint8_t* bytes, size_t size, std::vector<LinkRow>& rows);

}  // namespace ccld::wire
