// How many micro-batches each data-parallel replica takes, so that the slowest replica is as early as it can be.
// (Greyhound, section 5.2, S2; there as a quadratic program, here exact.)
//
// Contract: pure. Every replica keeps at least one micro-batch; the total is kept.
#pragma once

#include <cstdint>
#include <vector>

namespace ccld::decision::advise {

struct Replica {
  double per_micro_batch = 0;  // time of one, more than 0
  double fixed = 0;            // what it takes besides, whatever their number
};

// By replica. `total`: at least one for each, else empty. At most about a hundred steps a replica, whatever the total.
std::vector<uint64_t> assign_micro_batches(const std::vector<Replica>&, uint64_t total);

// What the slowest replica takes with these numbers.
double longest(const std::vector<Replica>&, const std::vector<uint64_t>& counts);

}  // namespace ccld::decision::advise
