// Simulated time: nanoseconds since the simulation began; every clock of the cluster is derived from it.
#pragma once

#include <cstdint>

#include "decision/model/types.h"

namespace ccld::sim {

using Instant = int64_t;
using decision::Nanoseconds;
using decision::ns_per_ms;
using decision::ns_per_s;
constexpr Instant never = INT64_MAX / 4;
constexpr Nanoseconds ns_per_us = 1000;

constexpr Instant after(Instant t, Nanoseconds d) { return t >= never ? never : t + d; }

}  // namespace ccld::sim
