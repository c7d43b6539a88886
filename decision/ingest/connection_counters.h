// Connections at the telemetry socket, and what was cut for want of descriptors or memory (connection_room.h). Plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ccld::decision::ingest {

struct ConnectionCounters {
  size_t descriptors_max = 0;  // of this process
  uint64_t cut_quiet = 0;      // connections over which no batch came
  uint64_t cut_speaking = 0;   // and others
};

}  // namespace ccld::decision::ingest
