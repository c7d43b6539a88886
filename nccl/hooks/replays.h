// Counters of replays: one word of device memory for each kernel that may be recorded into a CUDA graph. Every replay adds
// 1 and shows the sum as abi::RoundRow::replay_index.
//
// Contract
//   abi::replay_slots_max words of zero, freed with the communicator. nullptr: no memory; replays are not numbered then.
//
// Threads: the thread that makes the communicator, device set.
#pragma once

#include <cstdint>

struct ncclComm;

namespace ccld::hooks {

uint32_t* make_replay_counters(ncclComm* comm);

}  // namespace ccld::hooks
