// The steps of a connection, by which NCCL cuts an operation's data.
#pragma once

#include <cstdint>

#include "schemas/wire/link_steps.h"

namespace ccld::decision {

// A sender may be so many steps ahead of its receiver.
constexpr int32_t steps_in_flight_max = wire::slots;

// Steps are counted modulo 2^32.
constexpr int32_t steps_between(uint32_t from, uint32_t to) { return static_cast<int32_t>(to - from); }

}  // namespace ccld::decision
