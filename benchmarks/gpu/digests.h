// What a collective makes of inputs that round: two libraries agree bit for bit only if they reduce in the same order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/gpu/ranks.h"

namespace ccld::gpu {

// Values of one rank: finite numbers with random bits, the same for the same seed everywhere.
std::vector<char> random_values(ncclDataType_t, size_t count, uint64_t seed);

// 64 bits of a sum over all bytes and where they stand.
uint64_t digest(const void* data, size_t bytes);

// Runs the call once on values of that seed; the digest of what each rank received, in hexadecimal.
std::vector<std::string> digests_of(Ranks&, const Call&, uint64_t seed);

}  // namespace ccld::gpu
