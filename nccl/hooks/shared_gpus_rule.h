// How ranks come to share a GPU. NCCL knows machines by a hash and refuses two ranks with the same machine and the same
// GPU: its search for topologies has room for one rank on each. With the switch on, every process counts as a machine
// of its own, which has that one GPU, and ranks of different processes meet over the network.
#pragma once

#include <cstdint>
#include <optional>

namespace ccld::hooks {

constexpr const char* share_gpus_variable = "CCLD_SHARE_GPUS";

// What the variable's text means; null (not set) is off. Nothing: it is neither 0 nor 1.
std::optional<bool> parse_share_gpus(const char* text);

// Differs for each process of a machine, and for equal processes (numbers repeat) of different machines.
uint64_t host_of_process(uint64_t host_hash, uint64_t process_hash);

}  // namespace ccld::hooks
