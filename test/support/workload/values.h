// What the ranks send and what must come out: small whole numbers that every data type holds exactly.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "test/support/workload/traffic.h"

namespace ccld::workload {

// The input of `rank`: `count` elements.
std::vector<unsigned char> input_of(int rank, ncclDataType_t, ncclRedOp_t, uint64_t count);

// Elements that `rank` gets from `call`; 0: it gets none.
uint64_t output_count(const Call&, int rank, int rank_count);

// Compares the output of `rank` with what the operation must give. Returns an empty string, or one line about the first
// wrong element.
std::string check_output(const Call&, int rank, int rank_count, const void* output);

}  // namespace ccld::workload
