// Values of a process, its host, GPUs and ports, packed: ids and instances as differences to the row before.
//
// Contract: pure; unpack() takes any bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ccld::wire {

struct MetricRow {
  uint16_t id = 0;        // abi::MetricId
  uint32_t instance = 0;  // of the message's instances
  int64_t value = 0;
};

std::vector<uint8_t> pack(std::vector<MetricRow> rows);
// False: the bytes are not so many rows.
bool unpack(const uint8_t* bytes, size_t size, std::vector<MetricRow>& rows);

}  // namespace ccld::wire
