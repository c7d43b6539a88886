// Who was let in at the door of the telemetry socket (door.h), and who was not. Threads: any; plain data.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace ccld::decision::ingest {

enum class DoorReason {
  key,          // not in the list
  no_key,       // the client uses no keys
  service_key,  // it was told another key than ours
  handshake,    // broken off: a scanner, a client without a key that was quicker than we, or one of another protocol
};
constexpr int door_reason_count = 4;
const char* name(DoorReason);

struct DoorCounters {
  uint64_t admitted = 0;
  std::array<uint64_t, door_reason_count> refused{};
  size_t keys = 0;  // in the list
  uint64_t refused_total() const {
    uint64_t sum = 0;
    for (const uint64_t count : refused) sum += count;
    return sum;
  }
};

}  // namespace ccld::decision::ingest
